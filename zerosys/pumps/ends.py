"""What a pump is given, as what layer 0 takes: a descriptor or a buffer, and what a file object holds.

``fileno()`` is not the object's bytes: Python's files read ahead and write behind, and what wraps
another file or socket (TLS, gzip) has the descriptor of what it wraps.
"""

from __future__ import annotations

import errno
import io
import os
import socket
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from zerosys.errors import PumpError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer


class HasFileno(Protocol):
    """A file, a socket, or whatever else tells its descriptor."""

    def fileno(self) -> int: ...


class HasRead(Protocol):
    """What is read by its own method."""

    def read(self, size: int, /) -> Any: ...


class HasWrite(Protocol):
    """What is written by its own method."""

    def write(self, data: Any, /) -> Any: ...


Descriptor: TypeAlias = int | HasFileno
# An array is a buffer, which numpy's stubs say from Python 3.12 on.
End: TypeAlias = "int | HasFileno | Buffer | NDArray[Any] | HasRead | HasWrite"


def _nothing(done: int) -> None:
    """For ends whose position is the descriptor's own."""


@dataclass(slots=True)
class Found:
    """An end as layer 0 takes it, or an object that is to be read or written by its own methods."""

    end: Any
    offset: int | None = None
    ahead: bytes = b""  # what a source has read ahead; *take* takes so much of it out
    take: Callable[[int], object] = field(default=_nothing)
    is_object: bool = False
    settle: Callable[[int], None] = field(default=_nothing)  # tell the file object how far it went


def source(src: Any, offset: int | None, name: str = "src") -> Found:
    """What to read *src* by. Nothing is taken from it yet."""
    src = _unwrapped(src, reading=True)
    if isinstance(src, io.BufferedWriter):
        raise PumpError(errno.EBADF, f"{name} ({src!r}) is open for writing only", side="source")
    if isinstance(src, io.BufferedReader | io.BufferedRandom) and _is_plain_raw(src.raw):
        if offset is not None:
            return Found(src, offset)
        if _has_position(src):
            return _positioned(src)
        return Found(src, ahead=_read_ahead(src), take=src.read)
    is_object = _needs_its_methods(src, "readinto", "read", "recv_into")
    _refuse_no_end(src, is_object, name)
    return Found(src, offset, is_object=is_object)


def sink(dst: Any, offset: int | None, name: str = "dst") -> Found:
    """What to write *dst* by, flushed."""
    dst = _unwrapped(dst, reading=False)
    if isinstance(dst, io.BufferedReader):
        raise PumpError(errno.EBADF, f"{name} ({dst!r}) is open for reading only", side="sink")
    if isinstance(dst, io.BufferedWriter | io.BufferedRandom) and _is_plain_raw(dst.raw):
        dst.flush()
        if offset is None and _has_position(dst) and not _appends(dst):
            return _positioned(dst)
        return Found(dst, offset)
    is_object = _needs_its_methods(dst, "write", "sendall")
    _refuse_no_end(dst, is_object, name)
    return Found(dst, offset, is_object=is_object)


def status(end: Any, name: str) -> os.stat_result:
    """fstat() of the descriptor of *end*. Raises OSError, which names it, if that is closed."""
    fd = end if isinstance(end, int) else end.fileno()
    try:
        return os.fstat(fd)
    except OSError as refusal:
        text = f"fstat: {refusal.strerror}; {name} is not an open descriptor ({fd})"
        raise OSError(refusal.errno, text) from None


def _refuse_no_end(end: Any, is_object: bool, name: str) -> None:
    if is_object or isinstance(end, int) or hasattr(end, "fileno") or is_buffer(end):
        return
    remedy = ": open it" if isinstance(end, str | os.PathLike) else ""
    raise TypeError(
        f"{name} must be a descriptor (an int, or what has fileno()), a file, a socket or a buffer, not "
        f"{type(end).__name__} ({end!r:.100}){remedy}"
    )


def plain_socket(end: Any, name: str) -> Any:
    """*end*, if it is a socket whose descriptor carries its bytes; TypeError if it wraps one."""
    if isinstance(end, socket.socket) and not _is_plain_socket(end):
        raise TypeError(
            f"{name} is a {type(end).__name__}, whose descriptor carries what its methods encode: relay() "
            "would put clear text into it. Read and write it yourself, or pump() each way"
        )
    if isinstance(end, io.IOBase):
        raise TypeError(f"{name} must be a socket, not {type(end).__name__}")
    return end


def refuse_same(a: int, b: int) -> None:
    """Raise ValueError where two descriptors are one socket: a relay would send it its own bytes for ever."""
    if os.path.samestat(os.fstat(a), os.fstat(b)):
        raise ValueError(f"a and b are the same socket (descriptor {a}): a relay is between two")


def _unwrapped(end: Any, reading: bool) -> Any:
    """The file in a temporary file's wrapper, and the bytes under a text file that has decoded none."""
    if "tempfile" in sys.modules and isinstance(end, sys.modules["tempfile"]._TemporaryFileWrapper):
        end = end.file
    if not isinstance(end, io.TextIOWrapper):
        return end
    if reading:
        _refuse_decoded(end)
    else:
        end.flush()
    return end.buffer


def _refuse_decoded(text: io.TextIOWrapper) -> None:
    try:
        text.reconfigure(errors=text.errors)  # allowed until the first read, and changes nothing
    except io.UnsupportedOperation:
        raise TypeError(
            f"{text!r} has decoded text already, and which bytes that were is not known: read bytes from its "
            ".buffer, or open it in binary mode"
        ) from None


def _is_plain_socket(end: socket.socket) -> bool:
    # TLS, and whatever else encodes on the way, has methods of its own.
    kind = type(end)
    return kind.recv is socket.socket.recv and kind.send is socket.socket.send


def _is_plain_raw(raw: object) -> bool:
    if isinstance(raw, socket.SocketIO):
        return _is_plain_socket(raw._sock)  # type: ignore[attr-defined]
    return type(raw) is io.FileIO


def _needs_its_methods(end: Any, *methods: str) -> bool:
    if isinstance(end, int) or is_buffer(end):
        return False
    if isinstance(end, socket.socket):
        return not _is_plain_socket(end)
    if _is_plain_raw(end):
        return False
    if isinstance(end, io.TextIOBase):
        raise TypeError(f"{end!r} takes and gives text: pump bytes, through its .buffer")
    return any(callable(getattr(end, method, None)) for method in methods)


def is_buffer(end: Any) -> bool:
    """Whether *end* is memory: a region is, although it has a descriptor too."""
    try:
        memoryview(end).release()
    except TypeError:
        return False
    return True


def _has_position(file: Any) -> bool:
    kind = os.fstat(file.fileno()).st_mode
    return stat.S_ISREG(kind) or stat.S_ISBLK(kind)


def _appends(file: Any) -> bool:
    import fcntl

    return bool(fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_APPEND)


def _positioned(file: Any) -> Found:
    """By offset from where the file object says it is; it then seeks behind what was carried.

    So what it had read ahead is read again by the kernel, and nothing is copied for it.
    """
    start = file.tell()

    def settle(done: int) -> None:
        file.seek(start + done)

    return Found(file, start, settle=settle)


def _read_ahead(file: io.BufferedReader | io.BufferedRandom) -> bytes:
    """What *file* has read ahead, and no byte of its descriptor.

    peek() fills an empty buffer by a read, which may sleep; with a raw file that has
    nothing to give for a moment it does not.
    """
    raw: Any = file.raw
    raw.readinto = lambda buffer: None
    try:
        return file.peek()
    finally:
        del raw.readinto
