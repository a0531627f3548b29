"""The seam to GPUDirect Storage: a file that the disk and the device exchange by themselves, or why not."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any

_lock = threading.Lock()
_opened = False
_refused: dict[int | None, str] = {}  # why not: a device of files (st_dev), or None for the whole machine


def _cufile() -> Any:
    """cuFile, opened once, or refused once. Never asked without a device: it looks for one for minutes."""
    global _opened
    from cuda.bindings import cufile

    with _lock:
        if not _opened:
            cufile.driver_open()
            atexit.register(cufile.driver_close)
            _opened = True
    return cufile


class GdsFile:
    """A descriptor that was opened with O_DIRECT, registered with cuFile; a context manager.

    Raises OSError, with cuFile's own words, for a disk or a machine that cannot, which is asked once.
    """

    def __init__(self, fd: int) -> None:
        disk = os.fstat(fd).st_dev
        known = _refused.get(None) or _refused.get(disk)
        if known:
            raise OSError(known)
        where: int | None = None
        try:
            self._cufile = cufile = _cufile()
            where = disk
            descriptor = cufile.Descr()
            descriptor.type = cufile.FileHandleType.OPAQUE_FD
            descriptor.handle.fd = fd
            self._handle = cufile.handle_register(descriptor.ptr)
        except Exception as refusal:  # of whatever kind: cuFile's own, a library that is not there
            _refused[where] = f"cuFile does not take the file: {refusal}"
            raise OSError(_refused[where]) from refusal

    def read(self, address: int, size: int, offset: int) -> int:
        """Have the disk fill device memory; the bytes, fewer at the end of the file."""
        return int(self._cufile.read(self._handle, address, size, offset, 0))

    def write(self, address: int, size: int, offset: int) -> int:
        """Have the disk take device memory; the bytes."""
        return int(self._cufile.write(self._handle, address, size, offset, 0))

    def __enter__(self) -> GdsFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._cufile.handle_deregister(self._handle)
