"""CUDA's driver, by ctypes: what device N is, and the node that it names for each.

A process that starts CUDA can no longer use it in children that it forks. So the driver is asked here only
where something has started it already, and else in a process of its own.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from zerosys.devices import pci_address
from zerosys.record import Record

LIBRARY = "libcuda.so.1"
_NOT_INITIALIZED = 3
_HOST_NUMA_ID = 134  # CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, since CUDA 12.2
_PATIENCE = 60  # seconds: a driver that wakes eight GPUs takes some


class DriverError(Exception):
    """Why the driver told nothing; the text says which call."""


class CudaDevice(Record):
    """What the driver says of a device: its PCI address, and the node next to it, if it tells one."""

    address: str
    node: int | None


def running() -> list[CudaDevice] | None:
    """The devices as the driver counts them, if this process has started CUDA; else None."""
    try:
        library = ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    count = ctypes.c_int()
    try:
        idle = library.cuDeviceGetCount(ctypes.byref(count)) == _NOT_INITIALIZED
        return None if idle else _devices(library)
    except AttributeError as stranger:
        raise DriverError(f"{LIBRARY} here is no driver: {stranger}") from None


def asked_elsewhere() -> list[CudaDevice]:
    """The devices as the driver counts them, asked in a process of its own, which takes a second."""
    code = "from zerosys.cuda_driver import _tell; _tell()"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise DriverError(f"the driver did not answer in {_PATIENCE} s") from None
    if done.returncode:
        raise DriverError((done.stderr.strip().splitlines() or ["the driver's process ended"])[-1])
    words = [line.split() for line in done.stdout.splitlines()]
    return [CudaDevice(address=address, node=None if node == "-" else int(node)) for address, node in words]


def _tell() -> None:
    """What asked_elsewhere() reads: a line for each device."""
    try:
        library = ctypes.CDLL(LIBRARY)
        _check(library.cuInit(0), "cuInit")
        devices = _devices(library)
    except (OSError, DriverError) as refusal:
        sys.exit(str(refusal))
    for device in devices:
        print(device.address, "-" if device.node is None else device.node)


def _devices(library: ctypes.CDLL) -> list[CudaDevice]:
    count = ctypes.c_int()
    _check(library.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    return [_device(library, number) for number in range(count.value)]


def _device(library: ctypes.CDLL, number: int) -> CudaDevice:
    device, node, address = ctypes.c_int(), ctypes.c_int(-1), ctypes.create_string_buffer(32)
    _check(library.cuDeviceGet(ctypes.byref(device), number), "cuDeviceGet")
    _check(library.cuDeviceGetPCIBusId(address, len(address), device), "cuDeviceGetPCIBusId")
    # An older driver does not know the attribute: then it tells no node.
    known = library.cuDeviceGetAttribute(ctypes.byref(node), _HOST_NUMA_ID, device) == 0
    return CudaDevice(
        address=pci_address(address.value.decode()), node=node.value if known and node.value >= 0 else None
    )


def _check(code: int, call: str) -> None:
    if code:
        raise DriverError(f"{call} answered {code}")
