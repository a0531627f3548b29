"""A file opened past the page cache, and beside that as usual, for what is no whole block."""

from __future__ import annotations

import errno
import os
from typing import Any, Self

BLOCK = 4096  # no disk wants more, and a page of the cache is never shared by both ways


class DirectFile:
    """Both descriptors of the file at *path*, opened with *flags*; a context manager that closes them.

    ``direct`` is None where the file system knows no direct I/O (O_DIRECT is EINVAL there).
    """

    def __init__(self, path: str | os.PathLike[str], flags: int) -> None:
        self.direct: int | None = None
        self.plain = os.open(path, flags | os.O_CLOEXEC, 0o666)
        try:
            self.direct = os.open(path, (flags & ~os.O_CREAT) | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as refusal:
            if refusal.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                self.close()
                raise

    @property
    def size(self) -> int:
        """The bytes that the file has now."""
        return os.fstat(self.plain).st_size

    def read(self, into: memoryview, offset: int) -> int:
        """Fill *into* from *offset* on, as far as the file goes; the bytes.

        Direct where *into*, its length and *offset* are whole blocks.
        """
        return _whole(os.preadv, self._descriptor(into, offset), self.plain, into, offset)

    def write(self, part: memoryview, offset: int) -> None:
        """Write all of *part* at *offset*; its whole blocks past the page cache, where they lie so."""
        head = min(-offset % BLOCK, len(part))
        body = (len(part) - head) // BLOCK * BLOCK
        for begin, end in ((0, head), (head, head + body), (head + body, len(part))):
            if begin < end:
                piece = part[begin:end]
                fd = self._descriptor(piece, offset + begin)
                if _whole(os.pwritev, fd, self.plain, piece, offset + begin) < len(piece):
                    raise OSError(errno.EIO, f"the disk took only a part at {offset + begin}")

    def _descriptor(self, memory: memoryview, offset: int) -> int:
        from zerosys._numa import extent_of

        address, size = extent_of(memory)
        if self.direct is None or (address | size | offset) % BLOCK:
            return self.plain
        return self.direct

    def close(self) -> None:
        """Close both; twice is fine."""
        for fd in (self.plain, self.direct):
            if fd is not None and fd >= 0:
                os.close(fd)
        self.plain, self.direct = -1, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _whole(call: Any, fd: int, plain: int, memory: memoryview, offset: int) -> int:
    """Repeat *call* until *memory* is done or the file ends; a rest that is no block goes by *plain*."""
    done = 0
    while done < len(memory):
        moved = call(fd if done % BLOCK == 0 else plain, [memory[done:]], offset + done)
        if not moved:
            break
        done += moved
    return done
