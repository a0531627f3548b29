"""One buffer as a device sees it for one piece of work: in place where it can be, staged where it must."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, Self

from zerosys import pinned
from zerosys._numa import extent_of
from zerosys.cuda import backend, copies, lifetime, pins, streams
from zerosys.cuda.backend import Context
from zerosys.cuda.counters import counters
from zerosys.cuda.device_pool import DeviceBlock, staging_pool
from zerosys.cuda.devices import Device, working
from zerosys.cuda.fences import follow
from zerosys.cuda.memory import DeviceArray, leased
from zerosys.errors import CudaError, NotRegisterable
from zerosys.sizes import show_size


class DeviceView:
    """The bytes of *buffer* for a device, for one piece of work on *stream*; a context manager.

    ``pointer`` is where the device finds them. Registered, managed and device memory is used in
    place (``staged`` False), an array of another library after what its own stream was given. Other
    memory is copied to a block of device memory for *access* "in" and "inout", and back by commit() for
    "out" and "inout"; with *strict* that is refused instead: NotRegisterable, before anything is copied.
    stats() counts both, expect_no_staging() asserts that there was none.

    commit() ends the work: whatever was put on *stream* is done then, on both paths, and the
    processor may read the result. Leaving the ``with`` commits; after an exception it waits and
    copies nothing back. Until then the processor leaves the buffer alone (managed memory of a device
    without concurrentManagedAccess may not even be read). CuPy, numba and torch take the view by
    ``__cuda_array_interface__``, with the buffer's shape and type.

    Raises ValueError for "out" of memory that may not be written, CudaError where it has to be
    staged, no context is current, and neither *stream* nor *device* tells one.
    """

    __slots__ = (
        "_address", "_block", "_context", "_interface", "_lease", "_open", "_pin", "_read_only", "_returned",
        "_stream", "access", "nbytes", "pointer",
    )  # fmt: skip

    def __init__(
        self,
        buffer: Any,
        access: Literal["in", "out", "inout"] = "in",
        stream: Any = None,
        *,
        device: Device | None = None,
        strict: bool = False,
    ) -> None:
        self._open = self._returned = False
        if access != "in" and access not in ("out", "inout"):
            raise ValueError(f"access must be 'in', 'out' or 'inout', not {access!r}")
        self.access, self._stream = access, stream
        self._block: DeviceBlock | None = None
        self._pin: pins.Pin | None = None
        self._context: Context | None = None
        self._lease: Any = None  # a view of host memory, or whoever has the device memory
        interface = getattr(buffer, "__cuda_array_interface__", None)
        self._interface: dict[str, Any] | None = interface
        if interface is not None:
            self._lease = buffer
            self._take_device(DeviceArray(interface))
        else:
            self._take_host(buffer, device, strict)
        self._open = True

    # -- taking it ---------------------------------------------------------------------------

    def _take_device(self, memory: DeviceArray) -> None:
        self._refuse_writing(memory.read_only)
        self.pointer, self.nbytes, self._address = memory.address, memory.size, memory.address
        if memory.stream is not None and memory.size:
            handle, device = streams.handle_of(self._stream), backend.load().pointer(memory.address).device
            with working(handle, device if device >= 0 else None) as context:
                follow(handle, memory.stream, context)
        with counters.lock:
            counters.views += 1

    def _take_host(self, buffer: Any, device: Device | None, strict: bool) -> None:
        lease: memoryview = leased(buffer)
        self._lease = lease
        address, size = extent_of(lease)
        self._address, self.nbytes = address, size
        row = pinned.find(address, size)
        try:
            if row is None or not self._use(row.what, lease, address):
                self._refuse_writing(lease.readonly)
                self._find(address, size, device, strict)
        except BaseException:
            self._lease = None
            raise

    def _use(self, pin: pins.Pin, lease: memoryview, address: int) -> bool:
        """Take registered memory in place; False if another thread unregistered it just now."""
        self._refuse_writing(pin.read_only or lease.readonly)
        with counters.lock:
            if not pin.count and not pin.views:
                return False
            pin.views += 1
            counters.views += 1
        self._pin, self._context = pin, pin.context
        self.pointer = pin.pointer + (address - pin.address)
        return True

    def _find(self, address: int, size: int, device: Device | None, strict: bool) -> None:
        """Ask the driver what the memory is that zerosys has not registered; stage it if it is nothing."""
        cuda = backend.load()
        there = cuda.pointer(address) if size else backend.Pointer("device")
        inside = not there.size or address + size <= there.start + there.size
        if there.kind != "pageable" and inside:
            self.pointer = there.pointer
            with counters.lock:
                counters.views += 1
        else:
            self._stage(address, size, device, strict)

    def _stage(self, address: int, size: int, device: Device | None, strict: bool) -> None:
        if strict:
            raise NotRegisterable(
                backend.NOT_REGISTERED,
                "DeviceView",
                f"{show_size(size)} at {address:#x} are not registered, and strict=True refuses to copy "
                "them: register() the memory, or take it from a HostPool",
            )
        handle = streams.handle_of(self._stream)
        with working(handle, device) as context:
            block = staging_pool(context).acquire(size)
            if self.access != "out":
                try:
                    copies.enqueue(block.pointer, address, size, handle)
                except BaseException:
                    block.release()
                    raise
        self._block, self._context, self.pointer = block, context, block.pointer
        counters.staged(size if self.access != "out" else 0)

    def _refuse_writing(self, read_only: bool) -> None:
        self._read_only = read_only
        if read_only and self.access != "in":
            raise ValueError(
                f"access {self.access!r} writes, and the memory may only be read: pass access='in'"
            )

    # -- what it is --------------------------------------------------------------------------

    @property
    def staged(self) -> bool:
        """Whether the device has a copy, and not the memory itself."""
        return self._block is not None

    @property
    def closed(self) -> bool:
        """Whether the work was committed or given up."""
        return not self._open

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self._open:
            raise ValueError("this DeviceView is closed")
        handle = streams.handle_of(self._stream)
        told = {"data": (self.pointer, self._read_only), "version": 3, "strides": None}
        if self._stream is not None:
            told["stream"] = handle or 1  # 0 is not allowed there: the default stream is 1
        if self._interface is not None:
            return {**self._interface, **told}
        import numpy

        array = numpy.asarray(self._lease)
        return {"shape": array.shape, "typestr": array.dtype.str, "descr": array.dtype.descr, **told}

    # -- ending it ---------------------------------------------------------------------------

    def commit(self, timeout: float | None = None) -> None:
        """Wait until the stream's work is done and the result is where the buffer is; twice is fine.

        Raises NotReady after *timeout* seconds, and can be called again then; CudaError for
        what failed on the device. Ctrl-C is answered.
        """
        if not self._open:
            return
        handle = streams.handle_of(self._stream)
        block = self._block
        if block is not None and self.access != "in" and not self._returned:
            with backend.current(backend.load(), block.context):
                copies.enqueue(self._address, block.pointer, self.nbytes, handle)
            self._returned = True
            counters.copied_back(self.nbytes)
        streams.synchronize(handle, timeout, self._context)
        self._close()

    def abort(self) -> None:
        """Wait for the device, and copy nothing back. Memory used in place keeps what was written."""
        if self._open:
            try:
                streams.synchronize(streams.handle_of(self._stream), context=self._context)
            finally:
                self._close()

    def _close(self) -> None:
        self._open = False
        pin, block = self._pin, self._block
        self._interface = self._lease = None
        if block is not None:
            block.release()
        if pin is not None:
            with counters.lock:
                pin.views -= 1
                last = not pin.views and not pin.count
            if last:
                pins.leave_view(pin)

    def __enter__(self) -> Self:
        if not self._open:
            raise ValueError("this DeviceView is closed")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()

    def __del__(self) -> None:
        if not getattr(self, "_open", False) or not lifetime.usable():
            return
        # The device may be at it still, so nothing is given back before it is done.
        lifetime.log.warning("%r was dropped without commit(): waiting for its stream", self)
        try:
            self.abort()
        except CudaError as refusal:
            lifetime.log.warning("%s", refusal)

    def __repr__(self) -> str:
        how = "closed" if not self._open else "staged" if self._block else "in place"
        return f"<DeviceView of {self.nbytes} bytes for {self.access}, {how}>"
