"""Host memory that is placed, populated and registered once, and lent again and again."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any, SupportsIndex

from zerosys import _dlpack
from zerosys._buckets import Block, Piece
from zerosys._loan import Loan
from zerosys.arrays import array_over
from zerosys.cuda import backend, lifetime
from zerosys.cuda.backend import Context
from zerosys.cuda.budget import Budget
from zerosys.cuda.devices import Device, context_for
from zerosys.cuda.pool import Pool
from zerosys.cuda.registration import register
from zerosys.nodes import parse
from zerosys.region import SharedRegion
from zerosys.sizes import parse_size

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from zerosys.nodes import Spec


class _Placed(Piece):
    """A region of its own, registered; its views are counted by the region."""

    def __init__(self, size: int, node: Spec | None, context: Context) -> None:
        self.region = SharedRegion.create(size, node=node)
        try:
            self.registration = register(self.region, context.device)
        except BaseException:
            self.region.close()
            raise
        # The one view that a free block has is the registration's.
        super().__init__(size, self.registration.device_pointer(), self.region, 1)

    def buffer(self) -> SharedRegion:
        return self.region

    def close(self) -> None:
        self.registration.__exit__(None, None, None)
        self.region.__exit__(None, None, None)


class _WriteCombined(Piece):
    """Memory of cudaHostAlloc's: the driver's own, neither shared nor placed."""

    region = None

    def __init__(self, size: int, context: Context) -> None:
        self._context, self._pid = context, os.getpid()
        cuda = backend.load()
        with backend.current(cuda, context):
            address = cuda.host_alloc(size, backend.PORTABLE | backend.DEVICE_MAP | backend.WRITE_COMBINED)
            super().__init__(size, cuda.device_pointer(address))
        self._memory = (ctypes.c_ubyte * size).from_address(address)
        self._loan: Any = None

    def buffer(self) -> Any:
        if self._loan is None:
            self._loan = Loan(self._memory)
        return self._loan

    def recall(self) -> None:
        if self._loan is not None:
            self._loan.recall()
            self._loan = None

    def close(self) -> None:
        address = ctypes.addressof(self._memory)
        what = f"{self.size} bytes of write-combined memory"
        lifetime.undo(what, self._context, self._pid, lambda: backend.load().host_free(address))


class HostBlock(Block):
    """``size`` bytes of registered host memory from a HostPool; given back once, by release().

    ``pointer`` is where the device finds them, ``region`` the SharedRegion they are (None for write-combined
    memory). A context manager. One that is dropped goes back to the system, when its last view goes.
    """

    __slots__ = ()

    @property
    def region(self) -> SharedRegion | None:
        """The region that the block is, which others can attach; None for write-combined memory."""
        found: SharedRegion | None = self._held().region
        return found

    @property
    def view(self) -> memoryview:
        """A new memoryview of the bytes, a lease: release() refuses under it."""
        return memoryview(self._held().buffer())[: self.size]

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.view  # Python 3.12 and newer: the block itself is a buffer

    def array(
        self, dtype: DTypeLike, shape: SupportsIndex | Sequence[SupportsIndex] = -1, offset: int = 0
    ) -> NDArray[Any]:
        """A numpy array over the bytes, as SharedRegion.array(); a lease."""
        return array_over(self._held().buffer(), self.size, dtype, shape, offset)

    def __dlpack__(self, **words: Any) -> Any:
        return self.array("u1").__dlpack__(**words)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_dlpack.CPU, 0)


class HostPool(Pool):
    """Registered host memory on *node*, for *device* (None: the thread's current context), by exact size.

    Sizes are rounded up to whole pages and no further. A block that is given back is kept,
    registered, for the next acquire() of its size; trim() gives what is free to the system.
    warm_up() pays for registering before it matters.

    *budget* (bytes, or "4GiB") and *share*, the part of the node's memory, bound what the pool holds;
    RLIMIT_MEMLOCK, every cgroup and the free memory of the node count too. Beyond them
    acquire() raises OSError ENOMEM with the reasons, and makes nothing.

    *write_combined* memory is cudaHostAlloc's: faster for a device to read on some machines, very slow for
    the processor to read. It is neither shared nor placed: a *node* is ValueError, ``block.region`` None.
    """

    def __init__(
        self,
        node: Spec | None = None,
        device: Device | None = None,
        *,
        write_combined: bool = False,
        budget: SupportsIndex | str | None = None,
        share: float = 0.5,
    ) -> None:
        super().__init__(PAGESIZE, HostBlock)
        if write_combined and node is not None:
            raise ValueError(
                f"write-combined memory is the driver's and cannot be placed: leave out node={node!r}"
            )
        self._node, self._write_combined = node, write_combined
        self._context = context_for(device)
        nodes = None if node is None else parse(node)
        self._budget = Budget(nodes, None if budget is None else parse_size(budget), share)

    @property
    def device(self) -> int:
        """The number of the device that it is registered with."""
        return self._context.device

    @property
    def write_combined(self) -> bool:
        """Whether its memory is cudaHostAlloc's: neither shared nor placed."""
        return self._write_combined

    def acquire(self, size: SupportsIndex | str) -> HostBlock:
        """*size* bytes (an int, or "64MiB") of registered memory, whose contents are whatever they were.

        Raises OSError ENOMEM where the budget refuses, and what SharedRegion.create() and register() raise.
        """
        block: HostBlock = self._take(size)
        return block

    def _make(self, size: int) -> Piece:
        self._budget.require(size, self._held_bytes)
        if self._write_combined:
            return _WriteCombined(size, self._context)
        return _Placed(size, self._node, self._context)
