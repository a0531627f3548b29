"""One small real call each, that leaves nothing behind; what the kernel refuses is an OSError."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator

_F_OFD_SETLK = 37
_MADV_POPULATE_WRITE = 23


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


@contextlib.contextmanager
def _sealed_memory() -> Iterator[int]:
    from zerosys._memfd import F_SEAL_GROW, F_SEAL_SHRINK, MFD_ALLOW_SEALING, MFD_CLOEXEC, add_seals
    from zerosys._memfd import memfd_create as create

    fd = create("zerosys-doctor", MFD_ALLOW_SEALING | MFD_CLOEXEC)
    try:
        os.ftruncate(fd, mmap.PAGESIZE)
        add_seals(fd, F_SEAL_SHRINK | F_SEAL_GROW)
        yield fd
    finally:
        os.close(fd)


def splice() -> None:
    """One byte from pipe to pipe."""
    from zerosys._splice import splice as call

    with _pipe() as (out, into), _pipe() as (_, further):
        os.write(into, b"x")
        call(out, further, 1)


def tee() -> None:
    """One byte duplicated into a second pipe."""
    from zerosys._splice import tee as call

    with _pipe() as (out, into), _pipe() as (_, further):
        os.write(into, b"x")
        call(out, further, 1)


def vmsplice() -> None:
    """One byte of memory lent to a pipe, and read again."""
    from zerosys._splice import vmsplice as call

    with _pipe() as (out, into):
        call(into, b"x")
        os.read(out, 1)


def sendfile() -> None:
    """One byte of a file sent to a pipe."""
    from zerosys._splice import sendfile as call

    with tempfile.TemporaryFile() as file, _pipe() as (_, into):
        os.write(file.fileno(), b"x")
        call(into, file.fileno(), 0, 1)


def copy_file_range() -> None:
    """One byte from file to file of one file system."""
    from zerosys._splice import copy_file_range as call

    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        os.write(source.fileno(), b"x")
        call(source.fileno(), sink.fileno(), 1, 0)


def memfd() -> None:
    """Nameless memory whose size is sealed."""
    with _sealed_memory():
        pass


def populate() -> None:
    """The page of a fresh mapping made without touching it."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page.madvise(_MADV_POPULATE_WRITE)


def mirror() -> None:
    """The same page mapped twice in a row."""
    from zerosys._mmap import Mapping

    with _sealed_memory() as fd, Mapping(fd, mmap.PAGESIZE, mirror=True):
        pass


def publish() -> None:
    """A file without a name in /dev/shm that is given one, which is removed at once."""
    from zerosys._splice import AT_SYMLINK_FOLLOW, linkat
    from zerosys.names import SHM

    path = f"{SHM}/zerosys-doctor-{os.getpid()}-{os.urandom(4).hex()}"
    fd = os.open(SHM, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        linkat(f"/proc/self/fd/{fd}", path, flags=AT_SYMLINK_FOLLOW)
        os.unlink(path)
    finally:
        os.close(fd)


def pidfd() -> None:
    """A descriptor of this very process."""
    os.close(os.pidfd_open(os.getpid()))


def ofd_lock() -> None:
    """A lock that belongs to an open file description."""
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    with tempfile.TemporaryFile() as file:
        fcntl.fcntl(file, _F_OFD_SETLK, lock)
