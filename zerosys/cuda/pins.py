"""Ranges that a driver pinned, each once however often it is registered: made, counted, undone."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Literal

from zerosys import pinned
from zerosys.cuda import areas, backend, lifetime
from zerosys.cuda.backend import Backend, Context
from zerosys.cuda.counters import counters
from zerosys.cuda.memory import HostMemory
from zerosys.errors import CudaError, NotRegisterable
from zerosys.sizes import show_size

# Newer drivers refuse 2^39 bytes and more in one call as "out of memory", whatever is free. A chunk
# is a multiple of every page size, so that no page is in two.
LARGEST = 1 << 39
CHUNK = 1 << 38

_STAGE = "pass it to DeviceView, which copies it through a buffer"

# Reentrant: the collector may drop a Registration on the thread that is making one.
lock = threading.RLock()


class Pin:
    """One pinned range. ``count`` registrations and ``views`` device views use it."""

    __slots__ = (
        "address", "by", "context", "count", "dropped", "locked", "memory", "pid", "pointer", "ranges",
        "read_only", "size", "views",
    )  # fmt: skip

    def __init__(self, memory: HostMemory, context: Context, read_only: bool) -> None:
        self.memory, self.context, self.read_only = memory, context, read_only
        self.address, self.size = memory.address, memory.size
        self.ranges: tuple[tuple[int, int], ...] = ((self.address, self.size),)
        self.by: Literal["us", "other"] = "us"
        self.pid = os.getpid()
        self.pointer = self.count = self.views = 0
        self.locked = self.dropped = False

    def __str__(self) -> str:
        return f"the registration of {show_size(self.size)} at {self.address:#x}"


def pin(memory: HostMemory, context: Context, read_only: bool | None) -> Pin:
    """The pin that holds *memory*, counted once more; made if there is none. The caller holds the lock.

    Raises NotRegisterable, CudaError for what is wrong with the device and not with the memory.
    """
    for dead in pinned.overlapping(memory.address, memory.size):
        if not backend.load().alive(dead.what.context):
            pinned.forget(dead.what)  # the device was reset: the driver knows nothing of it any more
    row = pinned.find(memory.address, memory.size)
    if row is not None:
        found: Pin = row.what
        if found.read_only and read_only is False:
            raise _refusal(
                backend.ALREADY_REGISTERED, "it is registered read-only: close that Registration first"
            )
        memory.release()
    else:
        found = _new_pin(memory, context, read_only)
        pinned.note(pinned.Pinned(found.address, found.address + found.size, context.device, found))
    with counters.lock:
        found.count += 1
    return found


def _new_pin(memory: HostMemory, context: Context, read_only: bool | None) -> Pin:
    cuda = backend.load()
    overlapped = pinned.overlapping(memory.address, memory.size)
    if overlapped:
        raise _refusal(backend.ALREADY_REGISTERED, _overlap(memory, overlapped))
    flags = backend.PORTABLE | backend.DEVICE_MAP
    if _read_only(cuda, memory, context, read_only):
        flags |= backend.READ_ONLY
    made = Pin(memory, context, bool(flags & backend.READ_ONLY) or memory.read_only)
    with backend.current(cuda, context):
        try:
            made.ranges = _register(cuda, made.address, made.size, flags)
        except CudaError as refusal:
            if refusal.code != backend.ALREADY_REGISTERED:
                raise _explained(refusal, memory) from refusal
            _adopt(cuda, made, refusal)
        try:
            made.pointer = _pointer(cuda, made)
            _lock(cuda, made)
        except BaseException:
            _unregister(made)
            raise
    return made


def _read_only(cuda: Backend, memory: HostMemory, context: Context, wish: bool | None) -> bool:
    """Whether to register for reading alone; every refusal that can be foreseen is raised here."""
    if not cuda.attribute("HOST_REGISTER_SUPPORTED", context.device):
        raise _refusal(
            backend.NOT_SUPPORTED, f"cuda:{context.device} cannot register memory at all: {_STAGE}"
        )
    found = areas.areas(memory.address, memory.size)
    why = areas.why_refused(found, memory.address, memory.size)
    if why:
        raise _refusal(backend.INVALID_VALUE, why)
    must = not areas.writable(found)
    if must and wish is False:
        raise _refusal(backend.INVALID_VALUE, "its mapping is read-only, which read_only=False contradicts")
    able = cuda.attribute("READ_ONLY_HOST_REGISTER_SUPPORTED", context.device)
    if (must or wish) and not able:
        raise _refusal(
            backend.NOT_SUPPORTED, f"cuda:{context.device} cannot register memory for reading alone: {_STAGE}"
        )
    return must or ((memory.read_only if wish is None else wish) and bool(able))


def _register(cuda: Backend, address: int, size: int, flags: int) -> tuple[tuple[int, int], ...]:
    """Register in one call; only where the driver refuses that size, in chunks, all or none."""
    try:
        cuda.host_register(address, size, flags)
    except CudaError as refusal:
        if refusal.code != backend.OUT_OF_MEMORY or size < LARGEST:
            raise
    else:
        return ((address, size),)
    done: list[tuple[int, int]] = []
    for at in range(address, address + size, CHUNK):
        part = min(CHUNK, address + size - at)
        try:
            cuda.host_register(at, part, flags)
        except CudaError as refusal:
            _unregister_all(cuda, done)
            raise CudaError(
                refusal.code,
                refusal.call,
                f"{refusal.text}, for chunk {len(done) + 1} of {-(-size // CHUNK)}: {show_size(part)} at "
                f"{at:#x}; the chunks before it were given back",
            ) from refusal
        done.append((at, part))
    return tuple(done)


def _pointer(cuda: Backend, made: Pin) -> int:
    """Where the device finds the memory: in one piece too, however many ranges it has."""
    first = cuda.device_pointer(made.address)
    for begin, _ in made.ranges[1:]:
        if cuda.device_pointer(begin) - first != begin - made.address:
            raise _refusal(
                backend.NOT_SUPPORTED,
                f"cuda:{made.context.device} maps its {len(made.ranges)} ranges apart, and one pointer "
                f"cannot reach them all: {_STAGE}",
            )
    return first


def _adopt(cuda: Backend, made: Pin, refusal: CudaError) -> None:
    """Use what another registered, if it holds all of *made*; it is never undone by us."""
    there = cuda.pointer(made.address)
    whole = there.start <= made.address and made.address + made.size <= there.start + there.size
    if there.kind != "host" or not whole:
        raise NotRegisterable(
            refusal.code, refusal.call, f"{refusal.text}: {_overlap(made.memory, pinned.ranges())}"
        ) from refusal
    made.by = "other"


def _overlap(memory: HostMemory, rows: Sequence[pinned.Pinned]) -> str:
    ours = ", ".join(f"{row.start:#x} to {row.end:#x}" for row in rows) or "none"
    return (
        f"{memory.address:#x} to {memory.address + memory.size:#x} is registered in part already, and one "
        f"copy must not cross from one registration into another; zerosys's own registrations: {ours}"
    )


def _explained(refusal: CudaError, memory: HostMemory) -> CudaError:
    """*refusal* with the cause where one was seen; NotRegisterable where it is about the memory."""
    why = None
    if refusal.code == backend.INVALID_VALUE:
        why = areas.why_invalid(areas.areas(memory.address, memory.size)) or "the driver does not say why"
    elif refusal.code == backend.OUT_OF_MEMORY:
        why = f"{show_size(memory.size)} could not be pinned{_wsl()}"
    elif refusal.code == backend.NOT_SUPPORTED:
        why = "this device or platform does not register such memory"
    if why is None:
        return refusal
    return NotRegisterable(refusal.code, refusal.call, f"{refusal.text}: {why}; {_STAGE}")


def _wsl() -> str:
    with open("/proc/version") as text:
        return ", of which WSL 2 allows 0.5 to 1 GiB in all" if "microsoft" in text.read().lower() else ""


def _refusal(code: int, why: str) -> NotRegisterable:
    return NotRegisterable(code, "register", why)


def _lock(cuda: Backend, made: Pin) -> None:
    """Lock the pages where registering does not: where the device walks the processor's page tables."""
    if not cuda.attribute("PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES", made.context.device):
        return
    mapping = made.memory.mapping
    if mapping is not None and not getattr(mapping, "locked", False):
        mapping.lock()
        made.locked = True


def _unregister(made: Pin) -> CudaError | None:
    """Have the driver give back every range that is ours, the last first."""
    if made.locked and made.memory.mapping is not None and made.pid == os.getpid():
        made.memory.mapping.unlock()
    if made.by == "other":
        return None

    def call() -> None:
        refused = _unregister_all(backend.load(), made.ranges)
        if refused:
            raise refused

    return lifetime.undo(str(made), made.context, made.pid, call)


def _unregister_all(cuda: Backend, ranges: Sequence[tuple[int, int]]) -> CudaError | None:
    """Give back each of *ranges*, the last first, whatever the driver says of one; its last refusal."""
    refused = None
    for begin, _ in reversed(ranges):
        try:
            cuda.host_unregister(begin)
        except CudaError as refusal:
            refused = refusal
    return refused


def leave(made: Pin) -> CudaError | None:
    """One registration less; the last user has the driver unregister. Its refusal, if any."""
    with lock:
        with counters.lock:
            made.count -= 1
        return _drop_if_last(made)


def leave_view(made: Pin) -> None:
    """After the last view ended and no registration was left: unregister, unless one came meanwhile."""
    with lock:
        _drop_if_last(made)


def _drop_if_last(made: Pin) -> CudaError | None:
    """Unregister before the memory can go, whatever the driver says. The caller holds the lock."""
    with counters.lock:
        # From here on no view takes the pin: see DeviceView._use.
        if made.count or made.views or made.dropped:
            return None
        made.dropped = True
    try:
        return _unregister(made)
    finally:
        if made.pid == os.getpid():  # the table of a child was emptied, and may have rows of its own
            pinned.forget(made)
        made.memory.release()


def _in_child() -> None:
    """A forked child has no registrations: its memory is free to go, and nobody calls the driver."""
    global lock
    lock = threading.RLock()
    for row in _parents_rows:
        row.what.memory.release()
    _parents_rows.clear()


_parents_rows: list[pinned.Pinned] = []


def _before_fork() -> None:
    _parents_rows[:] = pinned.ranges()


os.register_at_fork(before=_before_fork, after_in_parent=_parents_rows.clear, after_in_child=_in_child)
