"""Device memory that is kept when it is given back: freeing it would wait for the device."""

from __future__ import annotations

import os
from typing import Any, SupportsIndex

from zerosys._buckets import Block, Piece
from zerosys.cuda import backend, lifetime
from zerosys.cuda.backend import OUT_OF_MEMORY, Context
from zerosys.cuda.devices import Device, context_for
from zerosys.cuda.pool import Pool
from zerosys.errors import CudaError

_GRANULE = 512  # the driver's own


class _Allocation(Piece):
    """One piece of device memory."""

    def __init__(self, context: Context, size: int) -> None:
        with backend.current(backend.load(), context):
            super().__init__(size, backend.load().alloc(size))
        self.context, self._pid = context, os.getpid()

    def close(self) -> None:
        pointer = self.pointer
        what = f"{self.size} bytes of device memory"
        lifetime.undo(what, self.context, self._pid, lambda: backend.load().free(pointer))


class DeviceBlock(Block):
    """Device memory from a DevicePool: ``pointer``, ``size`` bytes; given back once, by release().

    CuPy, numba and torch take it as bytes by ``__cuda_array_interface__``; they must not keep it after
    release(). A context manager. One that is dropped is freed, which may wait for the device.
    """

    __slots__ = ()

    @property
    def context(self) -> Context:
        """The context that the memory is of."""
        found: Context = self._held().context
        return found

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }


class DevicePool(Pool):
    """Blocks of memory of *device* (None: of the thread's current context), by exact size.

    What is given back is kept, and the next acquire() of that size takes it; trim() frees. Where the
    device has no memory left, what is free is trimmed before CudaError is raised. A pool is for
    one context, and for any thread.
    """

    def __init__(self, device: Device | None = None) -> None:
        super().__init__(_GRANULE, DeviceBlock)
        self._context = context_for(device)

    @property
    def device(self) -> int:
        """The number of its device."""
        return self._context.device

    def acquire(self, size: SupportsIndex | str) -> DeviceBlock:
        """*size* bytes (an int, or "64MiB") of device memory, whose contents are whatever they were.

        See cuMemAlloc.
        """
        block: DeviceBlock = self._take(size)
        return block

    def _make(self, size: int) -> Piece:
        try:
            return _Allocation(self._context, size)
        except CudaError as refusal:
            if refusal.code != OUT_OF_MEMORY or not self.trim():
                raise
        return _Allocation(self._context, size)


_staging: dict[Context, DevicePool] = {}


def staging_pool(context: Context) -> DevicePool:
    """The pool of *context*, the current one, from which DeviceView stages."""
    pool = _staging.get(context)
    if pool is None:
        pool = _staging[context] = DevicePool()
    return pool
