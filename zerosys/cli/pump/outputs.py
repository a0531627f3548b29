"""The places that are written: no file is the source or named twice, and none is emptied before we know."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from zerosys.cli.places import Place, opened


class OutFailed(Exception):
    """An OUT cannot be written; the cause is why, where there is one."""

    def __init__(self, sink: Place, why: str = "") -> None:
        super().__init__(why)
        self.sink = sink


def opened_outputs(
    source: Place, source_fd: int, sinks: Sequence[Place], stack: ExitStack, *, append: bool, say: str
) -> list[int]:
    """A descriptor of each of *sinks*, until *stack* closes it; what files had is gone, except to *append*.

    Raises OutFailed: with nothing made or emptied where a file is the source, or another OUT.
    """
    _refuse_same(source, source_fd, sinks)
    fds: list[int] = []
    for sink in sinks:
        with _blamed(sink):
            fds.append(stack.enter_context(opened(sink, writes=True, append=append, say=say)))
    _refuse_same(source, source_fd, sinks, fds)  # a name can mean something else by now
    for sink, fd in zip(sinks, fds, strict=True):
        if sink.kind == "file" and not append:
            with _blamed(sink):
                _empty(fd)
    return fds


@contextmanager
def _blamed(sink: Place) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise OutFailed(sink) from failure


def _empty(fd: int) -> None:
    about = os.fstat(fd)
    if stat.S_ISREG(about.st_mode) and about.st_size:
        os.ftruncate(fd, 0)


def _refuse_same(
    source: Place, source_fd: int, sinks: Sequence[Place], fds: Sequence[int] | None = None
) -> None:
    """Compare what is behind the paths, or behind *fds*, by device and inode: links have many names."""
    seen = [(f"IN {source.text}", os.fstat(source_fd))]
    for number, sink in enumerate(sinks):
        if sink.kind != "file":
            continue  # what the shell has opened is as it wants it
        try:
            about = os.stat(sink.path) if fds is None else os.fstat(fds[number])
        except OSError:
            continue  # not there yet, or open() will say why not
        if not stat.S_ISREG(about.st_mode):
            continue
        for name, other in seen:
            if os.path.samestat(about, other):
                raise OutFailed(sink, f"it is the same file as {name}; nothing was written")
        seen.append((f"OUT {sink.text}", about))
