"""Memory that a device reads and writes itself, because its driver pinned it. See cuMemHostRegister."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, Self

from zerosys import _dlpack, machine
from zerosys.cuda import backend, pins
from zerosys.cuda.devices import Device, context_for
from zerosys.cuda.memory import HostMemory
from zerosys.errors import CudaError, NotRegisterable, PlacementError
from zerosys.proof import Verification
from zerosys.refusal import warn
from zerosys.wish import confined


def register(
    buffer: Any, device: Device | None = None, *, read_only: bool | None = None, strict: bool = True
) -> Registration:
    """Have the driver pin *buffer*, so that *device* reads and writes it in place or copies at link speed.

    *buffer* is a SharedRegion (whole, a mirror's two halves too), a ring, or any contiguous
    buffer; a torch tensor on the CPU too. *device* is a number, "cuda:0", a torch.device; None
    is the thread's current context. *read_only* lets the device only read; None goes by the
    mapping, and memory that a device writes must be writable. The Registration is a lease: the
    memory cannot be closed under it. Registering it again, or a part of it, is counted.
    Populate first: pages that do not exist yet cost ten times as much here.

    Pinning may move pages to another node, so a region's placement is verified again: a miss is
    PlacementError, and nothing stays registered. Raises NotRegisterable with the reason where
    this memory cannot be pinned: it is as usable as before, and a DeviceView of it is staged.
    Without *strict* both are told by the result instead: ``refusal``, and a PlacementWarning.
    Raises CudaError where no context is current and no *device* given, and in the child of
    a fork; Unsupported where there is no device. See cuMemHostRegister.
    """
    context = context_for(device)
    memory = HostMemory(buffer)
    try:
        made = Registration(memory, context.device)
        if memory.size:
            with pins.lock:
                made._pin = pins.pin(memory, context, read_only)
    except NotRegisterable as refusal:
        memory.release()
        if strict:
            raise
        made.refusal = refusal.with_traceback(None)
        return made
    except BaseException:
        memory.release()
        raise
    _verify_again(buffer, made, strict)
    return made


def _verify_again(buffer: Any, made: Registration, strict: bool) -> None:
    """Look where the pages are, once they are pinned, if they could have gone to another node."""
    policy = getattr(buffer, "policy", None)
    if policy is None or not hasattr(buffer, "verify") or len(machine.node_ids()) < 2:
        return
    report: Verification = buffer.verify()
    if report.ok or report.refusal or confined(policy) is None:
        return
    if strict:
        made.close()
        raise PlacementError(
            None, f"after registering, {report}", pages=report.placement.nodes if report.placement else {}
        )
    warn(f"after registering, {report}")


class Registration:
    """Memory that a device's driver pinned, made by register(); a lease on it, and a context manager.

    ``registered_by`` is "other" for memory that another library had registered already: it is used, and
    never undone here. ``ranges`` are the (address, size) that were registered, more than one only
    where the driver refuses so large a size in one call: a single copy must not cross their
    borders, and copy() does not. CuPy, numba and torch.as_tensor(..., device="cuda") read the
    mapped bytes by ``__cuda_array_interface__``; for numpy and JAX it is CUDA host memory by DLPack.
    """

    def __init__(self, memory: HostMemory, device: int) -> None:
        self.address, self.size, self.device = memory.address, memory.size, device
        self._lent = memory.lent
        self.refusal: NotRegisterable | None = None
        self._pin: pins.Pin | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether it was given back."""
        return self._closed

    @property
    def pinned(self) -> int:
        """The bytes that are registered: all, or none."""
        return self.size if self._pin is not None else 0

    @property
    def registered_by(self) -> Literal["us", "other"] | None:
        """Who had the driver pin it; None where nobody did."""
        return self._pin.by if self._pin is not None else None

    @property
    def read_only(self) -> bool:
        """Whether a device may only read the memory."""
        return self._pin is not None and self._pin.read_only

    @property
    def locked(self) -> bool:
        """Whether the pages were locked too, since registering does not on this device."""
        return self._pin is not None and self._pin.locked

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The (address, size) of each piece that was registered by one call."""
        return self._pin.ranges if self._pin is not None else ()

    def device_pointer(self, device: Device | None = None) -> int:
        """Where *device* finds the first byte, as the driver says; None is the device registered with.

        Raises ValueError once closed, and the refusal where nothing was registered.
        """
        found = self._held()
        if found is None:
            return 0
        offset = self.address - found.address
        if device is None:
            return found.pointer + offset
        context = context_for(device)
        with backend.current(backend.load(), context):
            return backend.load().device_pointer(found.address) + offset

    def _held(self) -> pins.Pin | None:
        """The pin; None for empty memory."""
        if self._closed:
            raise ValueError("this Registration is closed")
        if self.refusal is not None:
            raise self.refusal
        return self._pin

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self._lent,),
            "typestr": "|u1",
            "data": (self.device_pointer(), self.read_only),
            "strides": None,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kDLCUDAHost, 0)."""
        return (_dlpack.CUDA_HOST, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of uint8[size]: CUDA host memory, or the CPU's by *dl_device*; a lease."""
        found = self._held()
        if found is None or found.memory.lease is None:
            raise BufferError("empty memory is nothing to lend")
        device = dl_device or self.__dlpack_device__()
        if copy or device[0] not in (_dlpack.CPU, _dlpack.CUDA_HOST):
            raise BufferError(
                f"registered memory is lent in place, on the CPU or as CUDA host, not on {device}"
            )
        offset = self.address - found.address
        return _dlpack.capsule(
            found.memory.lease, device, offset, self._lent, read_only=self.read_only, max_version=max_version
        )

    def close(self) -> None:
        """Unregister, at once, unless others registered it too; twice is fine.

        Raises BufferError while a DeviceView of the memory lives, and changes nothing then. Where the
        context has gone, or in a forked child, the driver is not called: it is left, and logged.
        Raises CudaError if the driver refuses; what it held is given back all the same.
        """
        with pins.lock:
            found = self._pin
            if found is not None and not self._closed and found.views and found.count == 1:
                raise BufferError(
                    f"cannot unregister under {found.views} live DeviceView(s): close them first"
                )
            refusal = self._leave()
        if refusal is not None:
            raise refusal

    def __enter__(self) -> Self:
        if self._closed:
            raise ValueError("this Registration is closed")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unregister, or leave it to the last DeviceView; an exception is never masked."""
        self._leave()

    def __del__(self) -> None:
        # A half-made one has no such field.
        if not getattr(self, "_closed", True):
            self._leave()

    def _leave(self) -> CudaError | None:
        """Give up the pin, once; what the driver refuses was logged."""
        with pins.lock:
            if self._closed:
                return None
            self._closed = True
            return pins.leave(self._pin) if self._pin is not None else None

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"not registered: {self.refusal}" if self.refusal else "pinned"
        return f"<Registration of {self.size} bytes at {self.address:#x} with cuda:{self.device}, {state}>"
