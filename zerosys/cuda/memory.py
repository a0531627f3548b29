"""What a caller passes as memory, reduced to an address, a length, and what keeps it there."""

from __future__ import annotations

import math
from typing import Any

from zerosys._mmap import PROT_WRITE, Mapping
from zerosys._numa import extent_of


class HostMemory:
    """Bytes that the processor addresses: ``address``, ``size``, and ``lease``, which keeps them there.

    ``mapping`` is the zerosys Mapping that all of it is, if it is one: then ``size`` is that of its
    whole pages (of a mirror, of both halves), of which ``lent`` bytes are the user's.
    """

    __slots__ = ("address", "lease", "lent", "mapping", "read_only", "size")

    def __init__(self, buffer: Any) -> None:
        self.mapping = mapping = buffer if isinstance(buffer, Mapping) else None
        self.lease: memoryview | None = leased(buffer)
        view = self.lease
        self.address, self.lent = extent_of(view)
        self.size, self.read_only = self.lent, view.readonly
        if mapping is not None:
            self.size = mapping.mapped_size
            self.read_only = not mapping.protection & PROT_WRITE

    def release(self) -> None:
        """Give the lease back, unless a DLPack capsule lives on it: then with that."""
        self.lease = None


def leased(buffer: Any) -> memoryview:
    """A view of *buffer*, or of what it lends by DLPack on the CPU (a torch tensor), without a copy.

    Raises TypeError for what lends no memory, BufferError for memory that is not contiguous.
    """
    try:
        return memoryview(buffer)
    except TypeError:
        if not hasattr(buffer, "__dlpack__"):
            raise
    import numpy

    return memoryview(numpy.from_dlpack(buffer).data)


class DeviceArray:
    """Memory told by ``__cuda_array_interface__``: where it is, how long, whether it may be written.

    ``stream`` is the one that its producer is at it by; None where there is nothing to wait for.
    """

    __slots__ = ("address", "interface", "read_only", "size", "stream")

    def __init__(self, interface: dict[str, Any]) -> None:
        shape, kind = interface["shape"], interface["typestr"]
        strides, item = interface.get("strides"), int(kind[2:])
        if interface.get("mask") is not None:
            raise BufferError(
                "device memory with a mask is not taken: fill what it hides, and pass it without"
            )
        if strides is not None and (len(strides) != len(shape) or not _contiguous(shape, strides, item)):
            raise BufferError(
                f"device memory must be C-contiguous, not of strides {strides} for shape {shape}"
            )
        self.address, self.read_only = interface["data"]
        self.size = math.prod(shape) * item
        self.stream: int | None = interface.get("stream")
        self.interface = interface


class End:
    """One end of a copy: an address, a length, and what must live until the copy is done.

    ``on_device``: the memory told of itself by ``__cuda_array_interface__``; ``stream`` is that of its
    producer, which comes first. Raises ValueError for memory that is to be *written* and may only be read.
    """

    def __init__(self, memory: Any, *, written: bool) -> None:
        interface = getattr(memory, "__cuda_array_interface__", None)
        self.lease: memoryview | None = None
        self.stream: int | None = None
        self.on_device = interface is not None
        if interface is not None:
            told = DeviceArray(interface)
            self.address, self.size, read_only = told.address, told.size, told.read_only
            self.stream = told.stream
        else:
            self.lease = leased(memory)
            self.address, self.size = extent_of(self.lease)
            read_only = self.lease.readonly
        if written and read_only:
            raise ValueError("the destination may only be read")


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    step = item
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True
