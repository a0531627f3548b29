"""From ``cuda:N`` and ``gpu:...`` to a PCI address, by whatever here knows the GPUs."""

from __future__ import annotations

import os

from zerosys import cuda_driver
from zerosys.cuda_driver import CudaDevice, DriverError
from zerosys.devices import missing, pci_address
from zerosys.nvml import NvmlError, nvml
from zerosys.sysfs import entries, fields, text
from zerosys.trail import Trail
from zerosys.visible import Gpu, by_uuid, visible

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable


_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # the PCI class of GPUs, with a screen or without
DRIVER = "CUDA driver"


def cuda_address(base: str, word: str, trail: Trail) -> tuple[str, CudaDevice | None]:
    """The PCI address of ``cuda:``*word*, and what the driver says of it where it was asked.

    The driver counts the devices. Where it may be asked only at a cost, what it would say is
    reckoned from the list of GPUs: exactly, unless these are of different models, which it sorts itself.
    """
    if not _is_number(word):
        raise ValueError(f"cuda:{word[:80]}: write cuda:0 for CUDA's first device; gpu: takes a UUID")
    number = int(word)
    live = not base
    devices = _ask_here(trail) if live else None
    if devices is None:
        gpus, parent_of = known_gpus(base, trail)
        if gpus and _order_is_certain(gpus):
            seen = visible(os.environ.get("CUDA_VISIBLE_DEVICES"), gpus, parent_of)
            _require(number, len(seen))
            trail.note(
                DRIVER, "not asked: this process has not started CUDA, and to start it would end forking"
            )
            return seen[number].address, None
        if live:
            devices = _ask_elsewhere(trail)
    if not devices:
        raise missing(f"cuda:{word}", f"no GPU of NVIDIA is known here ({trail})")
    _require(number, len(devices))
    return devices[number].address, devices[number]


def _order_is_certain(gpus: list[Gpu]) -> bool:
    by_bus = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    return by_bus or len({gpu.model for gpu in gpus}) == 1


def _require(number: int, count: int) -> None:
    if number >= count:
        setting = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = "" if setting is None else f" (CUDA_VISIBLE_DEVICES={setting!r})"
        raise missing(f"cuda:{number}", f"CUDA counts {count} devices here{why}")


def _ask_here(trail: Trail) -> list[CudaDevice] | None:
    try:
        return cuda_driver.running()
    except DriverError as refusal:
        trail.note(DRIVER, str(refusal))
        return None


def _ask_elsewhere(trail: Trail) -> list[CudaDevice]:
    try:
        return cuda_driver.asked_elsewhere()
    except (DriverError, OSError) as refusal:
        trail.note(DRIVER, str(refusal))
        return []


def gpu_address(base: str, word: str, trail: Trail) -> str:
    """The PCI address of ``gpu:``*word*: a number in the order of the bus, a UUID, or an address."""
    if ":" in word:
        return pci_address(word)
    gpus, parent_of = known_gpus(base, trail)
    if _is_number(word):
        gpus = gpus or _display_controllers(base)
        if int(word) < len(gpus):
            return gpus[int(word)].address
        raise missing(f"gpu:{word}", f"this machine has {len(gpus)} GPUs")
    if not word.startswith(("GPU-", "MIG-")):
        raise ValueError(f"gpu:{word[:80]}: a number, a UUID (GPU-..., MIG-...), or a PCI address")
    found = by_uuid(word, gpus, parent_of)
    if found is None:
        have = ", ".join(gpu.uuid or gpu.address for gpu in gpus) or "none"
        raise missing(f"gpu:{word}", f"no GPU, or more than one, has this UUID (known: {have})")
    return found.address


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 10  # more GPUs than there are


def known_gpus(base: str, trail: Trail) -> tuple[list[Gpu], Callable[[str], str | None]]:
    """NVIDIA's GPUs in the order of the bus, and how to find that of a MIG device."""
    if not base:
        try:
            with nvml() as library:
                return library.gpus(), _parent_by_nvml
        except NvmlError as refusal:
            trail.note("NVML", str(refusal))
    ours = [gpu for gpu in _display_controllers(base) if _is_nvidia(base, gpu.address)]
    return _listed_by_driver(base) or ours, lambda uuid: None


def _parent_by_nvml(uuid: str) -> str | None:
    try:
        with nvml() as library:
            return library.parent_of(uuid)
    except NvmlError:
        return None


def _listed_by_driver(base: str) -> list[Gpu]:
    folder = f"{base}/proc/driver/nvidia/gpus"
    found = []
    for address in sorted(entries(folder)):
        told = fields(f"{folder}/{address}/information")
        found.append(Gpu(address=address.lower(), uuid=told.get("GPU UUID", ""), model=told.get("Model", "")))
    return found


def _display_controllers(base: str) -> list[Gpu]:
    folder = f"{base}/sys/bus/pci/devices"
    found = [name for name in entries(folder) if (text(f"{folder}/{name}/class") or "").startswith(_DISPLAY)]
    return [Gpu(address=name) for name in sorted(found)]


def _is_nvidia(base: str, address: str) -> bool:
    return text(f"{base}/sys/bus/pci/devices/{address}/vendor") == _NVIDIA
