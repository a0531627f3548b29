"""Fixed slots of one shared, registered region, which any process acquires, passes on and gives back."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Sequence
from multiprocessing import reduction
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex

from zerosys import _dlpack, _slots
from zerosys.arrays import array_over
from zerosys.cuda.devices import Device
from zerosys.cuda.later import Later
from zerosys.cuda.registration import Registration, register
from zerosys.handle import RegionHandle, refuse_pickle
from zerosys.region import SharedRegion
from zerosys.sizes import parse_size, show_size

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from zerosys.nodes import Spec

_PAGE = 4096
# The pools of this process by the file that they are: a slot that arrives belongs to one of them.
_pools: weakref.WeakValueDictionary[tuple[int, int], SlotPool] = weakref.WeakValueDictionary()


class Slot(_slots.Slot):
    """``nbytes`` of a SlotPool, a writable buffer; given back once, by release() or when it is dropped.

    ``index`` is which one, ``generation`` how often it changed hands. Pickled, by any pickler, it is the
    pool's handle with these two: whoever unpickles it first has the slot then, and for the sender it is
    stale (StaleSlot). The sender lives until it has arrived.
    """

    def array(
        self, dtype: DTypeLike = "u1", shape: SupportsIndex | Sequence[SupportsIndex] = -1, offset: int = 0
    ) -> NDArray[Any]:
        """A numpy array over the bytes, as SharedRegion.array(); it keeps the slot, and release() refuses."""
        return array_over(self, self.nbytes, dtype, shape, offset)

    @property
    def pointer(self) -> int:
        """Where the device finds the first byte. Raises ValueError where the pool is not registered here."""
        pool: SlotPool = self.pool
        return pool._registered().device_pointer() + self.address - pool.region.address

    def __dlpack__(self, **words: Any) -> Any:
        return self.array().__dlpack__(**words)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_dlpack.CPU, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.pool._ticket(), *self._send())

    def __repr__(self) -> str:
        state = ", given back" if self.released else ""
        return f"<Slot {self.index} of {show_size(self.nbytes)}, generation {self.generation}{state}>"


class SlotPool(_slots.SlotTable):
    """Owns a region of equal slots for any number of processes; made by create() or attach().

    It travels as an argument of a multiprocessing Process, through its Queue, Pipe and Pool, by name,
    and by ``zerosys.handle.send(sock, pool.handle())``. What a process holds that dies comes back.
    """

    _region: SharedRegion
    _registration: Registration | None

    if TYPE_CHECKING:  # the table makes slots of the kind that it was told

        def acquire(self, timeout: float | None = None) -> Slot: ...
        def try_acquire(self) -> Slot | None: ...

    def __new__(cls, *_: object, **__: object) -> Self:
        raise TypeError("make a SlotPool with SlotPool.create() or SlotPool.attach()")

    @classmethod
    def create(
        cls,
        count: SupportsIndex,
        nbytes: SupportsIndex | str,
        *,
        node: Spec | None = None,
        name: str | None = None,
        device: Device | None = None,
        pages: str = "auto",
        mode: int = 0o600,
    ) -> Self:
        """Make *count* slots of *nbytes* (an int, or "1MiB") each, on *node*; or leave nothing behind.

        *device* registers the memory with it at once, in this process; others call register() if they
        copy. *name*, *pages* and *mode* are those of SharedRegion.create(). Slots begin at pages.
        """
        size = parse_size(nbytes)
        if not size:
            raise ValueError("nbytes must be at least 1, not 0")
        stride = -(-size // _PAGE) * _PAGE
        whole = _slots.table_bytes(count) + int(count) * stride
        region = SharedRegion.create(whole, node=node, name=name, pages=pages, mode=mode)
        try:
            _slots.format_table(region, count, size, stride)
            return cls._over(region, device)
        except BaseException:
            if name:
                region.unlink()
            region.close()
            raise

    @classmethod
    def attach(
        cls, source: str | RegionHandle, *, device: Device | None = None, timeout: float = 0.0
    ) -> Self:
        """Join the pool of a name, or that of a handle, which stays the caller's.

        Every number in the memory is checked: ValueError for what is no slot pool. *device* and
        *timeout* are those of create() and SharedRegion.attach().
        """
        region = SharedRegion.attach(source, timeout=timeout)
        try:
            return cls._over(region, device)
        except BaseException:
            region.close()
            raise

    @classmethod
    def _over(cls, region: SharedRegion, device: Device | None) -> Self:
        self = _slots.SlotTable.__new__(cls)
        _slots.SlotTable.__init__(self, region, region.fileno(), Slot)
        self._region, self._registration = region, None
        self._later = Later(self)
        try:
            if device is not None:
                self.register(device)
        except BaseException:
            self._leave()
            raise
        _pools[region.file_id] = self
        return self

    def __init_subclass__(cls, **words: object) -> None:
        super().__init_subclass__(**words)
        reduction.register(cls, _reduce)

    # -- what it is --------------------------------------------------------------------------

    @property
    def region(self) -> SharedRegion:
        """The memory: a table, then the slots."""
        return self._region

    @property
    def name(self) -> str | None:
        """The name that it was created with or attached by; None for a nameless pool."""
        return self._region.name

    @property
    def closed(self) -> bool:
        """Whether close() was called here."""
        return self._region.closed

    @property
    def registration(self) -> Registration | None:
        """That of the memory with this process's device; None where there is none."""
        return self._registration

    def register(self, device: Device | None = None) -> Registration:
        """Register the memory with *device* in this process, as cuda.register(); once."""
        if self._registration is None:
            self._registration = register(self._region, device)
        return self._registration

    def _registered(self) -> Registration:
        if self._registration is None:
            raise ValueError("the pool is not registered in this process: call its register(device)")
        return self._registration

    def handle(self) -> RegionHandle:
        """What another process needs to attach: a new descriptor, which the handle owns."""
        return self._region.handle()

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self)

    def __repr__(self) -> str:
        what = f"SlotPool of {self.count} x {show_size(self.nbytes)}"
        return f"<{what}, closed>" if self.closed else f"<{what}, {self.free} free>"

    # -- slots that travel and that wait -------------------------------------------------------

    def _ticket(self) -> tuple[str | None, tuple[int, int], int, int]:
        """What tells an arriving slot's pool from others, and where to find it."""
        return self.name, self._region.file_id, os.getpid(), self._region.fileno()

    def _give_later(self, index: int, word: int, after: Any) -> None:
        self._later.add(index, word, after)

    def _forked(self) -> None:
        # What waits, and what was registered, is the parent's.
        self._later, self._registration = Later(self), None

    # -- given back ----------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the pool, once devices have finished with what was released here; twice is fine.

        Raises BufferError while this process holds slots or views, and changes nothing then. Others
        keep theirs.
        """
        if self.closed:
            return
        if self.held:
            self._leave()  # which refuses
        self._later.close()
        self._leave()
        if self._registration is not None:
            self._registration.close()
            self._registration = None
        self._region.close()

    def unlink(self) -> None:
        """Remove the name, for everybody. Raises ValueError for a nameless pool."""
        self._region.unlink()

    def __enter__(self) -> Self:
        if self.closed:
            raise ValueError("this SlotPool is closed")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; under slots that are still held the memory goes with the last of them."""
        with contextlib.suppress(BufferError):
            self.close()


reduction.register(SlotPool, lambda pool: _reduce(pool))


def _reduce(pool: SlotPool) -> tuple[Any, ...]:
    return _rebuild, (type(pool), pool.region)


def _rebuild(cls: type[SlotPool], region: SharedRegion) -> SlotPool:
    """The pool of a region that arrived; the one that this process has already."""
    known = _pools.get(region.file_id)
    if known is not None and not known.closed:
        region.close()
        return known
    return cls._over(region, None)


def _arrive(ticket: tuple[str | None, tuple[int, int], int, int], index: int, generation: int) -> Slot:
    """The slot that another process pickled."""
    name, file_id, pid, fd = ticket
    pool = _pools.get(file_id)
    if pool is None or pool.closed:
        pool = _found(name, file_id, pid, fd)
    slot: Slot = pool._adopt(index, generation)
    return slot


def _found(name: str | None, file_id: tuple[int, int], pid: int, fd: int) -> SlotPool:
    """The pool behind a ticket, for a process that has not attached it: by name, or from its sender."""
    try:
        if name is not None:
            pool = SlotPool.attach(name)
        else:
            with open(f"/proc/{pid}/fd/{fd}", "r+b", buffering=0) as file:
                pool = SlotPool._over(SharedRegion.attach(file), None)
    except (OSError, ValueError) as refusal:
        raise _slots.StaleSlot(
            f"a slot arrived whose pool this process has not ({refusal}): pass it the pool first"
        ) from refusal
    if pool.region.file_id != file_id:
        pool.close()
        raise _slots.StaleSlot(f"a slot arrived of a pool that is gone: {name or (pid, fd)}")
    return pool
