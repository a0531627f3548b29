"""What one end of an asynchronous pump is: a descriptor of its own, and what was read before."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import socket
import stat
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

from zerosys.errors import WouldCopy
from zerosys.pumps import ends
from zerosys.pumps.aio.streams import Borrowed, Streams, pair_of
from zerosys.pumps.result import carry

Endpoint = Any  # an int, what has fileno(), a Python file or socket, a buffer, or a pair of streams
TwoWay = Any  # an int or what has fileno(), a pair of streams, or (source, sink)


class End(ExitStack):
    """One end as the steps take it.

    A descriptor is duplicated, so that watching it disturbs nobody who watches the same
    socket, and closing the original does not pull it from under us. Of a pair of streams
    the transport is paused while we read, and its own buffers come first.
    """

    def __init__(
        self, thing: Endpoint, offset: int | None = None, *, reads: bool, writes: bool, name: str = ""
    ) -> None:
        super().__init__()
        name = name or ("src" if reads else "dst")
        self.before = b""
        pair = pair_of(thing)
        self._streams = Borrowed(pair) if pair else None
        self.found = _found(self._streams.fd if self._streams else thing, offset, reads, name)
        self.offset = self.found.offset
        self.is_memory = ends.is_buffer(self.found.end)
        self.target: Any = self.found.end
        self.standard = False
        self._writes = writes
        if self.is_memory:
            return
        fd = self.target if isinstance(self.target, int) else self.target.fileno()
        ends.status(fd, name)
        self.standard = fd <= 2  # whose flags are shared with strangers
        self.target = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
        self.callback(os.close, self.target)

    async def flush(self) -> None:
        """Wait until a stream's writer holds nothing back."""
        if self._streams and self._writes:
            try:
                await self._streams.flush()
            except asyncio.CancelledError as stopped:
                carry(stopped, moved=0, stranded=0, stranded_bytes=b"", side="sink")
                raise

    def take_over(self, count: int | None, strict: bool) -> bytes:
        """Take what was read from the source before: the first of the bytes to carry, ``before``.

        Last of all that can be refused: who has them when it is refused is the exception.
        """
        if self._streams:
            self.before = self._streams.take_over(count)
            self.callback(self._streams.give_back)
        elif self.found.ahead:
            self.before = self.found.ahead[:count]
            self.found.take(len(self.before))
        if self.before and strict:
            raise WouldCopy(
                errno.EOPNOTSUPP,
                f"{len(self.before)} bytes were read from the source before, which only a copy can deliver",
                side="source",
                stranded_bytes=self.before,
            )
        return self.before

    def settle(self, done: int) -> None:
        """Tell a file object how far it went."""
        self.found.settle(done)

    def shutdown(self, how: int) -> None:
        """Shut a socket down; nothing where this is none, or its peer is gone."""
        if not stat.S_ISSOCK(os.fstat(self.target).st_mode):
            return
        own = socket.socket(fileno=self.target)  # no duplicate: there may be no descriptor left
        try:
            with suppress(OSError):
                own.shutdown(how)
        finally:
            own.detach()


def _found(thing: Endpoint, offset: int | None, reads: bool, name: str) -> ends.Found:
    found = ends.source(thing, offset, name) if reads else ends.sink(thing, offset, name)
    if found.is_object:
        raise TypeError(
            f"{thing!r} is read and written by its own methods only, which wait: "
            "await asyncio.to_thread(zerosys.pump, ...)"
        )
    return found


class Duplex:
    """A way to somebody and back: a socket, a pair of streams, or (source, sink)."""

    def __init__(self, thing: TwoWay, name: str) -> None:
        with ExitStack() as undo:
            if isinstance(thing, tuple) and not isinstance(thing[0], asyncio.StreamReader):
                self.source = undo.enter_context(End(thing[0], reads=True, writes=False, name=f"{name}[0]"))
                self.sink = undo.enter_context(End(thing[1], reads=False, writes=True, name=f"{name}[1]"))
            else:
                self.source = self.sink = undo.enter_context(End(thing, reads=True, writes=True, name=name))
            if self.source.is_memory or self.sink.is_memory:
                raise TypeError("a relay is between descriptors, and a buffer is none: pump it")
            self._ends = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()


def sleeps(kind: str, fd: int) -> bool:
    """Whether calls on this end may sleep unseen: epoll refuses files, and a few devices."""
    if kind != "other":
        return kind == "file"
    with select.epoll() as asked:
        try:
            asked.register(fd, 0)
        except PermissionError:
            return True
    return False


__all__ = ["Duplex", "End", "Endpoint", "Streams", "TwoWay", "sleeps"]
