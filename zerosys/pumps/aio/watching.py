"""Have an event loop watch a descriptor, and leave its flags alone."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from functools import partial


def watch(
    loop: asyncio.AbstractEventLoop, side: str, fd: int, call: Callable[[], None]
) -> Callable[[], None]:
    """Call *call* whenever *fd* can be read ("source") or written ("sink"); gives what ends that.

    uvloop makes what it watches non-blocking for good, and with it everybody's descriptor for the
    same pipe or terminal. So a blocking one is watched through an epoll descriptor of our own.
    """
    if isinstance(loop, asyncio.SelectorEventLoop) or not os.get_blocking(fd):
        return _watch(loop, side, fd, call)
    poller = select.epoll()
    try:
        poller.register(fd, select.EPOLLIN if side == "source" else select.EPOLLOUT)
        stop = _watch(loop, "source", poller.fileno(), call)
    except BaseException:
        poller.close()
        raise

    def end() -> None:
        stop()
        poller.close()

    return end


def _watch(
    loop: asyncio.AbstractEventLoop, side: str, fd: int, call: Callable[[], None]
) -> Callable[[], None]:
    if side == "source":
        loop.add_reader(fd, call)
        return partial(_forget, loop.remove_reader, fd)
    loop.add_writer(fd, call)
    return partial(_forget, loop.remove_writer, fd)


def _forget(remove: Callable[[int], bool], fd: int) -> None:
    remove(fd)
