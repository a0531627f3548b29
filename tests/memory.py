"""Anonymous memory of the tests, by address, without a zerosys object in the way."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

PAGE = mmap.PAGESIZE


class Pages:
    """Shared anonymous pages: ``address``, ``mapped_size``, and the bytes in ``map``."""

    def __init__(self, pages: int) -> None:
        self.map = mmap.mmap(-1, pages * PAGE)
        self.mapped_size = len(self.map)
        self._view = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self._view)

    def touch(self) -> None:
        for at in range(0, self.mapped_size, PAGE):
            self.map[at] = 1

    def close(self) -> None:
        del self._view
        self.map.close()


@contextmanager
def pages(n: int, *, touch: bool = False) -> Iterator[Pages]:
    memory = Pages(n)
    if touch:
        memory.touch()
    try:
        yield memory
    finally:
        memory.close()
