"""Device memory that is kept when it is given back: freeing it would wait for the device."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self, SupportsIndex

from zerosys.cuda import backend, lifetime
from zerosys.cuda.backend import OUT_OF_MEMORY, Context
from zerosys.cuda.devices import Device, context_for
from zerosys.cuda.pool import Buckets
from zerosys.errors import CudaError


class _Allocation:
    """One piece of device memory."""

    __slots__ = ("context", "pid", "pointer", "size")

    def __init__(self, context: Context, size: int) -> None:
        self.context, self.size, self.pid = context, size, os.getpid()
        with backend.current(backend.load(), context):
            self.pointer = backend.load().alloc(size)

    def close(self) -> None:
        lifetime.undo(
            f"{self.size} bytes of device memory",
            self.context,
            self.pid,
            lambda: backend.load().free(self.pointer),
        )


class DeviceBlock:
    """Device memory from a DevicePool: ``pointer``, ``size`` bytes; given back once, by release().

    CuPy, numba and torch take it as bytes by ``__cuda_array_interface__``; they must not keep it after
    release(). A context manager. One that is dropped is freed, which may wait for the device.
    """

    __slots__ = ("_piece", "_pool", "pointer", "size")

    def __init__(self, pool: DevicePool, piece: _Allocation, size: int) -> None:
        self._pool, self._piece = pool, piece
        self.pointer, self.size = piece.pointer, size

    def release(self, after: Any = None) -> None:
        """Give it back, to be used again once *after*, a stream or an event of any library, has been passed.

        Without *after* the device must have finished with it. Twice is fine.
        """
        piece = self._piece
        if piece is not None:
            self._pool._give(piece, after)
            self._piece = None  # type: ignore[assignment]

    @property
    def context(self) -> Context:
        """The context that the memory is of."""
        return self._piece.context

    @property
    def released(self) -> bool:
        """Whether it was given back."""
        return self._piece is None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._piece is None:
            raise ValueError("this DeviceBlock was given back")
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_piece", None) is not None:
            self._pool._lose(self._piece)


class DevicePool(Buckets[_Allocation]):
    """Blocks of memory of *device* (None: of the thread's current context), by exact size.

    What is given back is kept, and the next acquire() of that size takes it; trim() frees. Where the
    device has no memory left, what is free is trimmed before CudaError is raised. A pool is for
    one context, and for any thread.
    """

    _step = 512  # the driver's own granule

    def __init__(self, device: Device | None = None) -> None:
        super().__init__()
        self._context = context_for(device)

    @property
    def device(self) -> int:
        """The number of its device."""
        return self._context.device

    def acquire(self, size: SupportsIndex | str) -> DeviceBlock:
        """*size* bytes (an int, or "64MiB") of device memory, whose contents are whatever they were.

        See cuMemAlloc.
        """
        piece = self._take(size)
        return DeviceBlock(self, piece, size if type(size) is int else piece.size)

    def _make(self, size: int) -> _Allocation:
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
