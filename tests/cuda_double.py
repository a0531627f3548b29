"""A CUDA driver that is not there: what the real one was seen to do, with no device behind it.

It stands behind the same seam as the real one (zerosys.cuda.backend.Backend). The contract tests run
on both, and the real one is the referee: what this one answers was measured there. Device memory is
ordinary memory, and a device finds registered memory at the processor's own address, as under
unified addressing. Work on a stream is done when somebody asks for it, and not before.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from zerosys.cuda import backend
from zerosys.cuda.backend import Context, Pointer
from zerosys.errors import CudaError

PAGE = mmap.PAGESIZE
MIB = 1 << 20
PATIENCE = 200  # questions after which whoever asks is taken to wait
ATTRIBUTES = {
    "INTEGRATED": 0,
    "CAN_MAP_HOST_MEMORY": 1,
    "HOST_REGISTER_SUPPORTED": 1,
    "READ_ONLY_HOST_REGISTER_SUPPORTED": 1,
    "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES": 0,
    "CONCURRENT_MANAGED_ACCESS": 1,
}


class Range:
    """Memory that the driver knows: registered, or allocated by it."""

    def __init__(self, start: int, size: int, kind: str, flags: int = 0) -> None:
        self.start, self.size, self.kind, self.flags = start, size, kind, flags
        self.memory: mmap.mmap | None = None
        self.device = 0

    @property
    def end(self) -> int:
        return self.start + self.size

    def holds(self, address: int, size: int) -> bool:
        return self.start <= address and address + size <= self.end

    def touches(self, address: int, size: int) -> bool:
        return self.start < address + size and address < self.end


class Event:
    """How often an event was recorded, how often that was passed, and when it last was."""

    def __init__(self) -> None:
        self.recorded = self.passed = 0
        self.stream = 0  # the one that it was recorded on last
        self.time = 0.0

    def happened(self) -> bool:
        return self.passed == self.recorded


class Double:
    """One process's driver. ``budget`` bytes may be pinned in all, ``largest`` in one call."""

    def __init__(self, devices: int = 1, *, budget: int = 768 * MIB, largest: int = 1 << 39) -> None:
        self.devices, self.budget, self.largest = devices, budget, largest
        self.attributes = dict(ATTRIBUTES)
        self.peers = True
        self.ranges: list[Range] = []
        self.pid = os.getpid()
        self._ids = itertools.count(1)
        self._handles = itertools.count(0x5000, 0x10)
        self._primaries: dict[int, Context] = {}
        default: deque[Callable[[], None]] = deque()
        self._streams = {0: default, 1: default, 2: default}  # 1 and 2 are names of it
        self._events: dict[int, Event] = {}
        self._asked: dict[int, int] = {}  # how often each event was, since it was recorded
        self._thread = threading.local()
        self._working = threading.RLock()

    # -- devices and contexts ------------------------------------------------------------------

    def _refuse(self, code: int, call: str) -> CudaError:
        return CudaError(code, call, f"refused by the double ({code})")

    def _entered(self, call: str) -> None:
        if os.getpid() != self.pid:
            raise self._refuse(backend.NOT_INITIALIZED, call)

    def driver_version(self) -> int:
        return 13000

    def device_count(self) -> int:
        self._entered("cuDeviceGetCount")
        return self.devices

    def attribute(self, name: str, device: int) -> int:
        return self.attributes[name]

    @property
    def _stack(self) -> list[Context]:
        if not hasattr(self._thread, "stack"):
            self._thread.stack = []
        return self._thread.stack

    def current(self) -> Context | None:
        self._entered("cuCtxGetCurrent")
        return self._stack[-1] if self._stack else None

    def primary(self, device: int) -> Context:
        self._entered("cuDevicePrimaryCtxRetain")
        if device not in self._primaries:
            # At the address at which the one before was, as the real one's primary context is.
            self._primaries[device] = Context(0x1000 + device, next(self._ids), device)
        return self._primaries[device]

    def context_of(self, stream: int) -> Context | None:
        return None

    def alive(self, context: Context) -> bool:
        self._entered("cuCtxGetId")
        return self._primaries.get(context.device) == context

    def push(self, context: Context) -> None:
        self._entered("cuCtxPushCurrent")
        if not self.alive(context):
            raise self._refuse(backend.CONTEXT_IS_DESTROYED, "cuCtxPushCurrent")
        self._stack.append(context)

    def pop(self) -> None:
        self._stack.pop()

    def _need_context(self, call: str) -> None:
        self._entered(call)
        if not self._stack or not self.alive(self._stack[-1]):
            raise self._refuse(backend.INVALID_CONTEXT, call)

    def reset(self, device: int = 0) -> None:
        """cudaDeviceReset: the primary context goes, with all that was made in it."""
        self._primaries.pop(device, None)
        self.ranges.clear()
        for queue in self._streams.values():
            queue.clear()
        self._stack.clear()

    # -- host memory ---------------------------------------------------------------------------

    def host_register(self, address: int, size: int, flags: int) -> None:
        call = "cuMemHostRegister"
        self._need_context(call)
        code = self._why_not(address, size, flags)
        if code:
            raise self._refuse(code, call)
        self.ranges.append(Range(address, size, "registered", flags))

    def _why_not(self, address: int, size: int, flags: int) -> int:
        if not self.attributes["HOST_REGISTER_SUPPORTED"]:
            return backend.NOT_SUPPORTED
        if not size:
            return backend.INVALID_VALUE
        if any(known.touches(address, size) for known in self.ranges if known.kind == "registered"):
            return backend.ALREADY_REGISTERED
        if size >= self.largest or size > self.budget - self.pinned():
            return backend.OUT_OF_MEMORY
        reading = bool(flags & backend.READ_ONLY)
        if reading and not self.attributes["READ_ONLY_HOST_REGISTER_SUPPORTED"]:
            return backend.NOT_SUPPORTED
        return self._wrong_pages(address, size, reading)

    def _wrong_pages(self, address: int, size: int, reading: bool) -> int:
        reached = address
        for start, end, rights, inode, path in _maps():
            if start > reached or end <= address:
                continue
            file = bool(inode) and not path.startswith(("/memfd:", "/dev/shm", "/dev/zero"))
            if file and rights == "r--p":
                raise AssertionError(f"the driver would hang over {path}")
            if (file and rights.endswith("s")) or ("w" not in rights and not reading):
                return backend.INVALID_VALUE
            reached = max(reached, end)
            if reached >= address + size:
                return 0
        return backend.INVALID_VALUE

    def pinned(self) -> int:
        return sum(known.size for known in self.ranges if known.kind == "registered")

    def host_unregister(self, address: int) -> None:
        self._need_context("cuMemHostUnregister")
        for known in self.ranges:
            if known.kind == "registered" and known.start == address:
                self.drain()
                self.ranges.remove(known)
                return
        raise self._refuse(backend.NOT_REGISTERED, "cuMemHostUnregister")

    def host_alloc(self, size: int, flags: int) -> int:
        return self._allocate(size, "host", "cuMemHostAlloc", flags)

    def host_free(self, address: int) -> None:
        self._free(address, "host", "cuMemFreeHost")

    def device_pointer(self, address: int) -> int:
        self._need_context("cuMemHostGetDevicePointer")
        if any(known.holds(address, 1) for known in self.ranges if known.kind in ("registered", "host")):
            return address
        raise self._refuse(backend.INVALID_VALUE, "cuMemHostGetDevicePointer")

    def pointer(self, address: int) -> Pointer:
        self._entered("cuPointerGetAttribute")
        for known in self.ranges:
            if known.holds(address, 1):
                kind = "host" if known.kind == "registered" else known.kind
                return Pointer(kind, address, known.start, known.size, known.device)
        return Pointer("pageable")

    # -- device memory, copies, streams, events ------------------------------------------------

    def _allocate(self, size: int, kind: str, call: str, flags: int = 0) -> int:
        self._need_context(call)
        if not size:
            raise self._refuse(backend.INVALID_VALUE, call)
        memory = mmap.mmap(-1, -(-size // PAGE) * PAGE)
        view = ctypes.c_char.from_buffer(memory)
        made = Range(ctypes.addressof(view), size, kind, flags)
        made.memory, made.device = memory, self._stack[-1].device
        self.ranges.append(made)
        return made.start

    def _free(self, address: int, kind: str, call: str) -> None:
        self._need_context(call)
        for known in self.ranges:
            if known.start == address and known.kind == kind:
                self.drain()
                self.ranges.remove(known)
                return
        raise self._refuse(backend.INVALID_VALUE, call)

    def alloc(self, size: int) -> int:
        return self._allocate(size, "device", "cuMemAlloc")

    def alloc_managed(self, size: int) -> int:
        return self._allocate(size, "managed", "cuMemAllocManaged")

    def free(self, pointer: int) -> None:
        self._free(pointer, "device", "cuMemFree")

    def _crosses(self, address: int, size: int) -> bool:
        """Whether the range leaves one that the driver knows: one copy is within one."""
        return any(known.touches(address, size) and not known.holds(address, size) for known in self.ranges)

    def copy(self, dst: int, src: int, size: int, stream: int) -> None:
        self._need_context("cuMemcpyAsync")
        if self._crosses(dst, size) or self._crosses(src, size):
            raise self._refuse(backend.INVALID_VALUE, "cuMemcpyAsync")
        if self.pointer(src).kind == "pageable":  # read before the call returns
            content = ctypes.string_at(src, size)
            self.enqueue(stream, lambda: ctypes.memmove(dst, content, size))
        else:
            self.enqueue(stream, lambda: ctypes.memmove(dst, src, size))

    def can_access_peer(self, device: int, peer: int) -> bool:
        return device != peer and self.peers

    def enable_peer(self, peer: Context) -> None:
        self._need_context("cuCtxEnablePeerAccess")
        if not self.peers or not self.alive(peer):
            raise self._refuse(backend.INVALID_CONTEXT, "cuCtxEnablePeerAccess")

    def copy_peer(
        self, dst: int, dst_context: Context, src: int, src_context: Context, size: int, stream: int
    ) -> None:
        self._need_context("cuMemcpyPeerAsync")
        if not self.alive(dst_context) or not self.alive(src_context):
            raise self._refuse(backend.INVALID_CONTEXT, "cuMemcpyPeerAsync")
        self.copy(dst, src, size, stream)

    def memset(self, pointer: int, value: int, size: int, stream: int) -> None:
        """A kernel, of a kind: it writes what the device can reach, once its turn comes."""
        self._need_context("cuMemsetD8Async")
        if not any(known.holds(pointer, size) for known in self.ranges):
            raise self._refuse(backend.INVALID_VALUE, "cuMemsetD8Async")
        self.enqueue(stream, lambda: ctypes.memset(pointer, value, size))

    def enqueue(self, stream: int, work: Callable[[], object]) -> None:
        self._guard_managed(mmap.PROT_READ & 0)
        self._streams[stream].append(work)

    def drain(self, stream: int | None = None) -> None:
        """Do what was put on *stream*, or on all of them."""
        self._guard_managed(mmap.PROT_READ | mmap.PROT_WRITE)
        for number in list(self._streams):
            if stream in (None, number):
                self._work(number, lambda: False)

    def _work(self, stream: int, enough: Callable[[], bool]) -> None:
        """Do what was put on *stream*, one by one, until it is *enough*."""
        queue = self._streams[stream]
        while queue and not enough():
            with self._working:  # in order, also where several threads ask
                if queue:
                    queue.popleft()()

    def _guard_managed(self, rights: int) -> None:
        """Without concurrent access the processor dies of SIGSEGV if it touches managed memory meanwhile."""
        if self.attributes["CONCURRENT_MANAGED_ACCESS"]:
            return
        for known in self.ranges:
            if known.kind == "managed":
                size = -(-known.size // PAGE) * PAGE
                ctypes.CDLL(None).mprotect(ctypes.c_void_p(known.start), ctypes.c_size_t(size), rights)

    def stream_create(self) -> int:
        handle = next(self._handles)
        self._streams[handle] = deque()
        return handle

    def stream_done(self, stream: int) -> bool:
        self._entered("cuStreamQuery")
        if stream <= 2:  # the default streams are the current context's
            self._need_context("cuStreamQuery")
        if not self._streams[stream]:
            return True
        self.drain(stream)  # by the next question it is
        return False

    def stream_destroy(self, stream: int) -> None:
        """The real one lets what was put on it come to its end."""
        self._need_context("cuStreamDestroy")
        self.drain(stream)
        del self._streams[stream]

    def stream_wait(self, stream: int, event: int) -> None:
        self._need_context("cuStreamWaitEvent")
        known = self._events[event]
        wanted, recorder = known.recorded, known.stream
        # Its stream goes on as far as the event, and no further.
        self._streams[stream].append(lambda: self._work(recorder, lambda: known.passed >= wanted))

    def event_create(self, timed: bool = False) -> int:
        self._need_context("cuEventCreate")
        event = next(self._handles)
        self._events[event] = Event()
        return event

    def event_record(self, event: int, stream: int) -> None:
        self._need_context("cuEventRecord")
        known = self._events[event]
        known.recorded, known.stream = known.recorded + 1, stream
        self._asked[event] = 0

        def passed(number: int = known.recorded) -> None:
            known.passed, known.time = number, time.perf_counter()

        self._streams[stream].append(passed)

    def event_done(self, event: int) -> bool:
        """Does not work off a stream for a glance or two; for one who waits it does, as time does."""
        self._entered("cuEventQuery")
        known = self._events[event]
        if not known.happened():
            self._asked[event] += 1
            if self._asked[event] > PATIENCE:
                self.drain()
        return known.happened()

    def event_elapsed(self, begin: int, end: int) -> float:
        first, last = self._events[begin], self._events[end]
        if not first.recorded or not last.recorded:
            raise self._refuse(backend.INVALID_HANDLE, "cuEventElapsedTime")
        if not first.happened() or not last.happened():
            raise self._refuse(backend.NOT_READY, "cuEventElapsedTime")
        return last.time - first.time

    def event_destroy(self, event: int) -> None:
        del self._events[event]


def _maps() -> list[tuple[int, int, str, int, str]]:
    found = []
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, rights, _, _, inode, *path = line.split(None, 5)
            start, end = (int(word, 16) for word in span.split("-"))
            found.append((start, end, rights, int(inode), path[0].strip() if path else ""))
    return found
