"""The one seam to CUDA: every call that zerosys makes of a driver is a method here.

The driver interface is used and not the runtime's, because a runtime call that fails latches its error
in the thread, where the next innocent caller finds it; the driver's calls answer and leave nothing
behind. The runtime is asked only whether there is a driver: it answers where the driver interface
raises.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol

from zerosys.errors import CudaError, Unsupported

INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 1, 2, 3, 100
INVALID_CONTEXT, CONTEXT_IS_DESTROYED, NOT_READY, INVALID_HANDLE = 201, 709, 600, 400
ALREADY_REGISTERED, NOT_REGISTERED, NOT_SUPPORTED = 712, 713, 801
PEER_ALREADY_ENABLED = 704
TOO_OLD = 35  # the runtime's, for "no driver" too

PORTABLE, DEVICE_MAP, READ_ONLY = 1, 2, 8  # of host_register()
WRITE_COMBINED = 4  # of host_alloc(), beside the first two


class Context(NamedTuple):
    """A CUDA context: its handle, the number that no later context gets again, and its device."""

    handle: int
    id: int
    device: int


class Pointer(NamedTuple):
    """What the driver knows of an address; ``kind`` "pageable" where it knows nothing.

    ``start`` and ``size`` are those of the whole allocation or registration, ``pointer`` is
    where the device finds the byte.
    """

    kind: Literal["pageable", "host", "device", "managed"]
    pointer: int = 0
    start: int = 0
    size: int = 0
    device: int = -1


class Backend(Protocol):
    """What the rest of zerosys.cuda needs. Each call raises CudaError for what is refused."""

    def driver_version(self) -> int: ...
    def device_count(self) -> int: ...
    def attribute(self, name: str, device: int) -> int: ...
    def current(self) -> Context | None: ...
    def primary(self, device: int) -> Context: ...
    def context_of(self, stream: int) -> Context | None: ...
    def alive(self, context: Context) -> bool: ...
    def push(self, context: Context) -> None: ...
    def pop(self) -> None: ...
    def host_register(self, address: int, size: int, flags: int) -> None: ...
    def host_unregister(self, address: int) -> None: ...
    def host_alloc(self, size: int, flags: int) -> int: ...
    def host_free(self, address: int) -> None: ...
    def device_pointer(self, address: int) -> int: ...
    def pointer(self, address: int) -> Pointer: ...
    def alloc(self, size: int) -> int: ...
    def free(self, pointer: int) -> None: ...
    def copy(self, dst: int, src: int, size: int, stream: int) -> None: ...
    def can_access_peer(self, device: int, peer: int) -> bool: ...
    def enable_peer(self, peer: Context) -> None: ...
    def copy_peer(
        self, dst: int, dst_context: Context, src: int, src_context: Context, size: int, stream: int
    ) -> None: ...
    def stream_create(self) -> int: ...
    def stream_destroy(self, stream: int) -> None: ...
    def stream_wait(self, stream: int, event: int) -> None: ...
    def stream_done(self, stream: int) -> bool: ...
    def event_create(self, timed: bool = False) -> int: ...
    def event_elapsed(self, begin: int, end: int) -> float: ...
    def event_record(self, event: int, stream: int) -> None: ...
    def event_done(self, event: int) -> bool: ...
    def event_destroy(self, event: int) -> None: ...


class CudaBindings:
    """The driver, through cuda-bindings. Handles and pointers are plain ints on this side."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._success = driver.CUresult.CUDA_SUCCESS
        self._not_ready = driver.CUresult.CUDA_ERROR_NOT_READY
        self._attributes = driver.CUdevice_attribute
        self._facts = driver.CUpointer_attribute
        self._primaries: dict[int, int] = {}
        self._check("cuInit", driver.cuInit(0))

    def _check(self, call: str, answer: tuple[Any, ...]) -> Any:
        """The value in *answer*, or CudaError."""
        if answer[0] is not self._success and answer[0] != self._success:
            raise self._refusal(call, answer[0])
        return answer[1] if len(answer) > 1 else None

    def _refusal(self, call: str, code: Any) -> CudaError:
        error, text = self._driver.cuGetErrorString(code)
        words = text.decode() if error == self._success and text else "unknown error"
        name = getattr(code, "name", str(code))
        return CudaError(int(code), call, f"{words} ({int(code)}, {name})")

    # -- devices and contexts ------------------------------------------------------------------

    def driver_version(self) -> int:
        return int(self._check("cuDriverGetVersion", self._driver.cuDriverGetVersion()))

    def device_count(self) -> int:
        return int(self._check("cuDeviceGetCount", self._driver.cuDeviceGetCount()))

    def attribute(self, name: str, device: int) -> int:
        """The device attribute CU_DEVICE_ATTRIBUTE_*name*."""
        which = getattr(self._attributes, f"CU_DEVICE_ATTRIBUTE_{name}")
        handle = self._check("cuDeviceGet", self._driver.cuDeviceGet(device))
        return int(self._check("cuDeviceGetAttribute", self._driver.cuDeviceGetAttribute(which, handle)))

    def current(self) -> Context | None:
        """The calling thread's current context; None where it has none. Makes none."""
        handle = int(self._check("cuCtxGetCurrent", self._driver.cuCtxGetCurrent()))
        return self._described(handle) if handle else None

    def _described(self, handle: int) -> Context:
        """The current context, of which *handle* is known."""
        number = int(self._check("cuCtxGetId", self._driver.cuCtxGetId(handle)))
        device = int(self._check("cuCtxGetDevice", self._driver.cuCtxGetDevice()))
        return Context(handle, number, device)

    def context_of(self, stream: int) -> Context | None:
        """The context of *stream*; None for the default streams, which are any context's."""
        if stream <= 2:  # legacy, and per thread
            return None
        handle = int(self._check("cuStreamGetCtx", self._driver.cuStreamGetCtx(stream)))
        self._check("cuCtxPushCurrent", self._driver.cuCtxPushCurrent(handle))
        try:
            return self._described(handle)
        finally:
            self.pop()

    def primary(self, device: int) -> Context:
        """The primary context of *device*, made if need be and then kept, as the runtime keeps it."""
        handle = self._primaries.get(device)
        if handle is None:
            handle = self._retain(device)
        number = self._driver.cuCtxGetId(handle)
        if number[0] != self._success:  # reset since then: retained anew
            handle = self._retain(device)
            number = self._driver.cuCtxGetId(handle)
        return Context(handle, int(self._check("cuCtxGetId", number)), device)

    def _retain(self, device: int) -> int:
        which = self._check("cuDeviceGet", self._driver.cuDeviceGet(device))
        handle = int(self._check("cuDevicePrimaryCtxRetain", self._driver.cuDevicePrimaryCtxRetain(which)))
        self._primaries[device] = handle
        return handle

    def alive(self, context: Context) -> bool:
        """Whether *context* is still the one it was, and no later one at the same address."""
        error, number = self._driver.cuCtxGetId(context.handle)
        return bool(error == self._success) and int(number) == context.id

    def push(self, context: Context) -> None:
        self._check("cuCtxPushCurrent", self._driver.cuCtxPushCurrent(context.handle))

    def pop(self) -> None:
        self._check("cuCtxPopCurrent", self._driver.cuCtxPopCurrent())

    # -- host memory ---------------------------------------------------------------------------

    def host_register(self, address: int, size: int, flags: int) -> None:
        self._check("cuMemHostRegister", self._driver.cuMemHostRegister(address, size, flags))

    def host_unregister(self, address: int) -> None:
        self._check("cuMemHostUnregister", self._driver.cuMemHostUnregister(address))

    def host_alloc(self, size: int, flags: int) -> int:
        return int(self._check("cuMemHostAlloc", self._driver.cuMemHostAlloc(size, flags)))

    def host_free(self, address: int) -> None:
        self._check("cuMemFreeHost", self._driver.cuMemFreeHost(address))

    def device_pointer(self, address: int) -> int:
        """Where the current context's device finds registered memory."""
        answer = self._driver.cuMemHostGetDevicePointer(address, 0)
        return int(self._check("cuMemHostGetDevicePointer", answer))

    def pointer(self, address: int) -> Pointer:
        """What *address* is. An address unknown to CUDA is an answer, no error."""
        facts, ask = self._facts, self._driver.cuPointerGetAttribute
        error, kind = ask(facts.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
        if error != self._success:
            if int(error) == INVALID_VALUE:
                return Pointer("pageable")
            raise self._refusal("cuPointerGetAttribute", error)

        def fact(name: str, default: int) -> int:
            error, value = ask(getattr(facts, f"CU_POINTER_ATTRIBUTE_{name}"), address)
            return int(value) if error == self._success else default

        host = int(kind) == int(self._driver.CUmemorytype.CU_MEMORYTYPE_HOST)
        managed = bool(fact("IS_MANAGED", 0))
        return Pointer(
            "managed" if managed else "host" if host else "device",
            fact("DEVICE_POINTER", address),
            fact("RANGE_START_ADDR", 0),
            fact("RANGE_SIZE", 0),
            fact("DEVICE_ORDINAL", -1),
        )

    # -- device memory, copies, streams, events ------------------------------------------------

    def alloc(self, size: int) -> int:
        return int(self._check("cuMemAlloc", self._driver.cuMemAlloc(size)))

    def free(self, pointer: int) -> None:
        self._check("cuMemFree", self._driver.cuMemFree(pointer))

    def copy(self, dst: int, src: int, size: int, stream: int) -> None:
        """Enqueue a copy between any two addresses. Refused across the border of two registrations."""
        self._check("cuMemcpyAsync", self._driver.cuMemcpyAsync(dst, src, size, stream))

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether *device* can reach the memory of *peer*, over NVLink or PCIe."""
        one, other = (self._check("cuDeviceGet", self._driver.cuDeviceGet(n)) for n in (device, peer))
        answer = self._driver.cuDeviceCanAccessPeer(one, other)
        return bool(self._check("cuDeviceCanAccessPeer", answer))

    def enable_peer(self, peer: Context) -> None:
        """Have the current context reach the memory of *peer*; once more is fine."""
        answer = self._driver.cuCtxEnablePeerAccess(peer.handle, 0)
        if int(answer[0]) != PEER_ALREADY_ENABLED:
            self._check("cuCtxEnablePeerAccess", answer)

    def copy_peer(
        self, dst: int, dst_context: Context, src: int, src_context: Context, size: int, stream: int
    ) -> None:
        """Enqueue a copy from one device's memory to another's."""
        answer = self._driver.cuMemcpyPeerAsync(
            dst, dst_context.handle, src, src_context.handle, size, stream
        )
        self._check("cuMemcpyPeerAsync", answer)

    def stream_create(self) -> int:
        """A stream of the current context, which does not wait for the default one."""
        flags = self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        return int(self._check("cuStreamCreate", self._driver.cuStreamCreate(flags)))

    def stream_destroy(self, stream: int) -> None:
        self._check("cuStreamDestroy", self._driver.cuStreamDestroy(stream))

    def stream_wait(self, stream: int, event: int) -> None:
        """Have what is put on *stream* from now on wait for *event*, as it was recorded last."""
        self._check("cuStreamWaitEvent", self._driver.cuStreamWaitEvent(stream, event, 0))

    def stream_done(self, stream: int) -> bool:
        return self._ready("cuStreamQuery", self._driver.cuStreamQuery(stream))

    def event_create(self, timed: bool = False) -> int:
        kinds = self._driver.CUevent_flags
        flags = kinds.CU_EVENT_DEFAULT if timed else kinds.CU_EVENT_DISABLE_TIMING
        return int(self._check("cuEventCreate", self._driver.cuEventCreate(flags)))

    def event_record(self, event: int, stream: int) -> None:
        self._check("cuEventRecord", self._driver.cuEventRecord(event, stream))

    def event_done(self, event: int) -> bool:
        return self._ready("cuEventQuery", self._driver.cuEventQuery(event))

    def event_elapsed(self, begin: int, end: int) -> float:
        """Seconds between two timed events that have passed."""
        answer = self._driver.cuEventElapsedTime(begin, end)
        return float(self._check("cuEventElapsedTime", answer)) / 1000

    def event_destroy(self, event: int) -> None:
        self._check("cuEventDestroy", self._driver.cuEventDestroy(event))

    def _ready(self, call: str, answer: tuple[Any, ...]) -> bool:
        if answer[0] == self._not_ready:
            return False
        self._check(call, answer)
        return True


# What load() found, and the process it found it in; a test's double is put here by its fixture, and
# nowhere else.
_loaded: Backend | None = None
_loaded_in: int | None = None
_loading = threading.Lock()


def _in_child() -> None:
    """A thread that the child has not may have been loading at the fork, and will never unlock it."""
    global _loading
    _loading = threading.Lock()


os.register_at_fork(after_in_child=_in_child)


def load() -> Backend:
    """The back end. Raises Unsupported that says what is missing: extra, driver, a newer one, a device."""
    found = _loaded
    if found is None:
        with _loading:
            found = _loaded or install(_bindings())
    return found


def install(found: Backend) -> Backend:
    """Have *found* answer from now on, in this process; its driver has been initialised."""
    global _loaded, _loaded_in
    _loaded, _loaded_in = found, os.getpid()
    return found


def process() -> int | None:
    """The process that initialised the driver through load(); None if none has."""
    return _loaded_in


def _bindings() -> CudaBindings:
    try:
        from cuda.bindings import driver, runtime
    except ImportError as missing:
        raise Unsupported(
            errno.ENODEV,
            f"cuda-bindings cannot be imported ({missing}): pip install 'cuda-bindings==13.*', "
            "or 'cuda-bindings==12.*' for a driver of CUDA 12",
        ) from missing
    _, version = runtime.cudaDriverGetVersion()
    if not version:
        raise Unsupported(
            errno.ENODEV,
            "no NVIDIA driver is installed (libcuda.so.1 answers no version); in a container, run it with "
            "--gpus all",
        )
    error, count = runtime.cudaGetDeviceCount()
    if int(error) or not count:
        raise Unsupported(errno.ENODEV, _why_no_device(runtime, int(error), int(version)))
    return CudaBindings(driver)


def _why_no_device(runtime: Any, code: int, version: int) -> str:
    if code == TOO_OLD:
        _, wanted = runtime.cudaRuntimeGetVersion()
        return (
            f"the driver is too old: it supports CUDA {_dotted(version)}, and cuda-bindings is made for "
            f"{_dotted(int(wanted))}: install a newer driver, or 'zerosys[cuda12]'"
        )
    if code == NOT_INITIALIZED:
        return (
            "CUDA does not initialise (3): a process forked from one that had initialised CUDA cannot use "
            "it: start it by spawn or forkserver"
        )
    if code in (0, NO_DEVICE):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f": CUDA_VISIBLE_DEVICES is {visible!r}" if visible is not None else ""
        return f"the driver (CUDA {_dotted(version)}) sees no device{why}"
    _, text = runtime.cudaGetErrorString(code)
    return f"cudaGetDeviceCount: {text.decode() if isinstance(text, bytes) else text} ({code})"


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


@contextmanager
def current(backend: Backend, context: Context) -> Iterator[None]:
    """Have *context* current on this thread inside the block; afterwards it has what it had."""
    backend.push(context)
    try:
        yield
    finally:
        backend.pop()
