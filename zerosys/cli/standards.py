"""Standard descriptors that were closed before we began (``<&-``, ``>&-``): found, and not reused."""

from __future__ import annotations

import errno
import os

_NAMES = ("standard input", "standard output", "standard error")


def require_open(fd: int) -> None:
    """Raise OSError(EBADF), which says what is closed, unless *fd* is open."""
    try:
        os.fstat(fd)
    except OSError:
        name = _NAMES[fd] if fd < len(_NAMES) else f"descriptor {fd}"
        raise OSError(errno.EBADF, f"{name} is closed") from None


def occupy() -> None:
    """Put /dev/null where a standard descriptor is closed: else what is opened next becomes it."""
    while (fd := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) < len(_NAMES):
        pass
    os.close(fd)
