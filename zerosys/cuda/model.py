"""What a device's memory is to the processor's: one and the same, another's over a link, or none there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zerosys.cuda import backend, lifetime
from zerosys.cuda.devices import Device, number_of
from zerosys.errors import CudaError, Unsupported


class MemoryKind(StrEnum):
    """UNIFIED: device and processor share one memory. DISCRETE: each has its own. NO_DEVICE: none is."""

    UNIFIED = "unified"
    DISCRETE = "discrete"
    NO_DEVICE = "no device"


@dataclass(frozen=True)
class MemoryModel:
    """What memory_model() found; true where there is a device.

    ``coherent``: the device reads pageable memory through the processor's own page tables (NVLink-C2C),
    so that registering locks nothing; on such a machine register() locks as well. ``reason`` says
    why there is no device, and what would help.
    """

    kind: MemoryKind
    device: int = -1
    coherent: bool = False
    reason: str = ""

    def __bool__(self) -> bool:
        return self.kind is not MemoryKind.NO_DEVICE


def memory_model(device: Device = 0) -> MemoryModel:
    """Say what *device* shares with the processor. Makes no context, and raises for no machine.

    A missing extra, no driver, one that is too old, or no device are NO_DEVICE with the reason. Asking
    initialises the driver: children that are to use CUDA are started by spawn from then on. Raises
    ValueError for a number that no device has.
    """
    number = number_of(device)
    try:
        cuda = backend.load()
        lifetime.refuse_fork()
        count = cuda.device_count()
        if not 0 <= number < count:
            raise ValueError(f"device must be 0 to {count - 1}, not {number}")
        integrated = cuda.attribute("INTEGRATED", number) and cuda.attribute("CAN_MAP_HOST_MEMORY", number)
        coherent = cuda.attribute("PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES", number)
    except Unsupported as missing:
        return MemoryModel(MemoryKind.NO_DEVICE, reason=str(missing.strerror))
    except CudaError as refusal:
        return MemoryModel(MemoryKind.NO_DEVICE, reason=str(refusal))
    return MemoryModel(
        MemoryKind.UNIFIED if integrated else MemoryKind.DISCRETE, number, coherent=bool(coherent)
    )
