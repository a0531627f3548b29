"""What a contract test of zerosys.cuda stands on: the machine's driver, or, where there is none, the double.

    rig = cuda_rig.rig()    # in a child process too; the fixture `gpu` gives the same

A rig makes the bare calls, without zerosys: they show what the driver does, which the library then
is held against. ``gpu.watched`` counts the library's calls and can have one of them refused.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import Any

import numpy
from cuda_double import Double

from zerosys import cuda
from zerosys.cuda import backend, counters, device_pool, fences
from zerosys.errors import CudaError, Unsupported


class Watched:
    """A back end whose calls are counted, and refused where a test says so."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls: Counter[str] = Counter()
        self.refusals: dict[str, list[int]] = {}  # the codes of the next calls, 0 to let one pass
        self.largest = 1 << 62  # host_register() of more is "out of memory"

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        def call(*args: Any) -> Any:
            self.calls[name] += 1
            codes = self.refusals.get(name)
            code = codes.pop(0) if codes else 0
            if name == "host_register" and args[1] >= self.largest:
                code = backend.OUT_OF_MEMORY
            if code:
                raise CudaError(code, name, f"refused by the test ({code})")
            return method(*args)

        return call


class Rig:
    """The bare calls of either driver; each answers its code."""

    kind: str
    watched: Watched

    def code(self, call: Any, *args: Any) -> int:
        """What *call* of the library's own seam answers: 0, or the code."""
        try:
            call(*args)
        except CudaError as refusal:
            return refusal.code
        return 0

    def register(self, address: int, size: int, flags: int = 3) -> int:
        return self.code(self.watched.inner.host_register, address, size, flags)

    def unregister(self, address: int) -> int:
        return self.code(self.watched.inner.host_unregister, address)

    def copy(self, dst: int, src: int, size: int) -> int:
        code = self.code(self.watched.inner.copy, dst, src, size, 0)
        self.finish(0)
        return code

    def finish(self, stream: int) -> None:
        while not self.watched.inner.stream_done(stream):
            pass

    @contextmanager
    def memory(self, size: int):
        """The address of *size* bytes of device memory."""
        pointer = self.watched.inner.alloc(size)
        try:
            yield pointer
        finally:
            self.watched.inner.free(pointer)

    def install(self, inner: Any) -> None:
        self.watched = Watched(inner)
        backend.install(self.watched)


class DoubleRig(Rig):
    kind = "double"

    def __init__(self) -> None:
        self.double = Double()
        self.install(self.double)
        self.latched = 0

    def make_current(self) -> None:
        """As a library does that was used on this thread: the device's context stays current."""
        if self.double.current() is None:
            self.double.push(self.double.primary(0))

    def fill(self, pointer: int, value: int, size: int, stream: int = 0) -> None:
        self.double.memset(pointer, value, size, stream)

    def stream(self) -> int:
        return self.double.stream_create()

    def managed(self, size: int) -> int:
        return self.double.alloc_managed(size)

    def reset(self) -> None:
        self.double.reset()

    def latch(self) -> None:
        """Fail a runtime call of the thread's, and leave its error there."""
        self.latched = backend.NOT_REGISTERED

    def peek(self) -> int:
        return self.latched

    def take(self) -> None:
        self.latched = 0


class DriverRig(Rig):
    kind = "driver"

    def __init__(self, inner: Any) -> None:
        from cuda.bindings import driver, runtime

        self.driver, self.runtime = driver, runtime
        self.install(inner)

    def _done(self, answer: tuple[Any, ...]) -> Any:
        assert int(answer[0]) == 0, answer
        return answer[1] if len(answer) > 1 else None

    def make_current(self) -> None:
        self._done(self.runtime.cudaSetDevice(0))
        self._done(self.runtime.cudaFree(0))

    def fill(self, pointer: int, value: int, size: int, stream: int = 0) -> None:
        self._done(self.driver.cuMemsetD8Async(pointer, value, size, stream))

    def stream(self) -> int:
        return int(self._done(self.driver.cuStreamCreate(1)))

    def managed(self, size: int) -> int:
        return int(self._done(self.driver.cuMemAllocManaged(size, 1)))

    def reset(self) -> None:
        self._done(self.runtime.cudaDeviceReset())

    def latch(self) -> None:
        code = int(self.runtime.cudaHostUnregister(1 << 20)[0])
        assert code == backend.NOT_REGISTERED, code

    def peek(self) -> int:
        return int(self.runtime.cudaPeekAtLastError()[0])

    def take(self) -> None:
        """Take the latched error, as whoever made it ought to."""
        self.runtime.cudaGetLastError()


def device_refusal() -> str | None:
    """Why there is no device here, or None."""
    try:
        backend._bindings()
    except Unsupported as missing:
        return missing.strerror
    return None


def rig() -> DoubleRig | DriverRig:
    """The driver of this machine, or the double."""
    try:
        inner = backend._bindings()
    except Unsupported:
        return DoubleRig()
    return DriverRig(inner)


def remove() -> None:
    """Leave the library as it was before any device."""
    backend._loaded = backend._loaded_in = None
    device_pool._staging.clear()
    fences._spare.clear()
    counters.counters.__init__()


def check_two_devices(size: int, way: str | None = None) -> str:
    """Copy *size* random bytes to device 0, from there to device 1, and back; the path between them."""
    words = numpy.random.default_rng(size).integers(0, 256, size, "u1")
    back = numpy.zeros_like(words)
    with cuda.DevicePool(0) as first, cuda.DevicePool(1) as second:
        with first.acquire(size) as here, second.acquire(size) as there:
            assert cuda.copy(here, words).path == "host to cuda:0"
            between = cuda.copy(there, here)
            assert between == size and between.path.startswith("cuda:0 to cuda:1, ")
            assert way is None or between.path.endswith(way), between.path
            assert cuda.copy(back, there).path == "cuda:1 to host"
    assert (back == words).all()
    return between.path
