"""NVIDIA's management library, by ctypes: which GPUs there are, and the nodes next to each.

Loading it starts no CUDA, so that a process that asks may still fork and use CUDA in its children.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from zerosys.visible import Gpu

LIBRARY = "libnvidia-ml.so.1"
_NODE_WORDS = 16  # 1024 nodes
_SCOPE_NODE = 0
_PCI_INFO = struct.Struct("=16s5I32s")  # nvmlPciInfo_t: old address, domain, bus, device, two ids, address


class NvmlError(Exception):
    """What NVML refused, or why it is not here; the text says which."""


class Nvml:
    """The library, started; each method raises NvmlError with the code that it answered."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def _call(self, name: str, *arguments: object) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise NvmlError(f"{LIBRARY} has no {name}: the driver is too old") from None
        code = function(*arguments)
        if code:
            raise NvmlError(f"{name} answered {code}{self._text(code)}")

    def _text(self, code: int) -> str:
        try:
            words = self._library.nvmlErrorString
        except AttributeError:
            return ""
        words.restype = ctypes.c_char_p
        said = words(code)
        return f" ({said.decode(errors='replace')})" if said else ""

    def gpus(self) -> list[Gpu]:
        """All GPUs of the machine that this process may see, in the order of their PCI addresses."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        found = []
        for number in range(count.value):
            device = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", number, ctypes.byref(device))
            uuid, model = self._string("nvmlDeviceGetUUID", device), self._string("nvmlDeviceGetName", device)
            found.append(Gpu(address=self._address(device), uuid=uuid, model=model))
        return sorted(found, key=lambda gpu: gpu.address)

    def parent_of(self, mig_uuid: str) -> str:
        """The PCI address of the GPU that a MIG device is a part of."""
        part, whole = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByUUID", mig_uuid.encode(), ctypes.byref(part))
        self._call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part, ctypes.byref(whole))
        return self._address(whole)

    def memory_nodes(self, address: str) -> frozenset[int]:
        """The nodes whose memory is best for the GPU at the PCI *address*."""
        device = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByPciBusId_v2", address.encode(), ctypes.byref(device))
        words = (ctypes.c_ulong * _NODE_WORDS)()
        self._call("nvmlDeviceGetMemoryAffinity", device, _NODE_WORDS, words, _SCOPE_NODE)
        width = 8 * ctypes.sizeof(ctypes.c_ulong)
        return frozenset(bit for bit in range(_NODE_WORDS * width) if words[bit // width] >> bit % width & 1)

    def _string(self, name: str, device: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(128)
        self._call(name, device, text, len(text))
        return text.value.decode(errors="replace")

    def _address(self, device: ctypes.c_void_p) -> str:
        info = ctypes.create_string_buffer(_PCI_INFO.size)
        self._call("nvmlDeviceGetPciInfo_v3", device, info)
        _, domain, bus, slot, *_ = _PCI_INFO.unpack(info.raw)
        return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


@contextmanager
def nvml() -> Iterator[Nvml]:
    """The library, started for the length of the block; NvmlError where it is not here or does not start."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as missing:
        raise NvmlError(str(missing)) from None
    started = Nvml(library)
    started._call("nvmlInit_v2")
    try:
        yield started
    finally:
        started._call("nvmlShutdown")
