"""The node next to a device: asked of everything that may know, with what each said."""

from __future__ import annotations

import errno
import os

from zerosys import devices, gpus
from zerosys.errors import PlacementError
from zerosys.machine import node_ids
from zerosys.nodes import format
from zerosys.nvml import NvmlError, nvml
from zerosys.record import Record
from zerosys.sysfs import members, number
from zerosys.trail import Trail, told

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable


#: What node_of() takes, by the word before the colon.
KINDS = ("cuda", "gpu", "netdev", "ip", "block", "file", "pci")


class Affinity(Record):
    """The node next to a device, or None where nothing tells one; as an int it is that node.

    ``source`` is what told it, "" for None; ``tried`` are (source, its answer) in the order
    of asking; ``selector`` is what was asked for, ``device`` the PCI address or the folder in sysfs.
    """

    node: int | None
    source: str
    tried: tuple[tuple[str, str], ...]
    selector: str = ""
    device: str = ""

    def __index__(self) -> int:
        """The node. Raises PlacementError(ENODEV) for None: no node is ever made up."""
        if self.node is None:
            raise PlacementError(
                errno.ENODEV,
                f"{self.selector or 'the device'} has no node that anything here tells "
                f"({told(self.tried)}): name the node itself",
            )
        return self.node


def node_of(selector: str, *, root: str | os.PathLike[str] = "/") -> Affinity:
    """The node next to the device that *selector* names, and how that is known.

    ``cuda:N`` is CUDA's device N after CUDA_VISIBLE_DEVICES; ``gpu:`` takes a UUID (of a MIG
    device too), a number in the order of the bus, or a PCI address; ``netdev:eth0``; ``ip:HOST``
    is the interface through which it is reached; ``block:sda`` or a path in /dev; ``file:PATH``
    the disk of its file system; ``pci:3b:00.0``. Asked are, until one knows: CUDA's driver,
    NVML, the device's numa_node in sysfs, that of the nearest bridge above it, its list of
    local CPUs. -1 is no node.

    Raises PlacementError(ENODEV) for a device that is not there, ValueError for a
    selector that cannot be read. *root* stands for ``/``; the libraries are asked only of ``/``.
    """
    if not isinstance(selector, str):
        raise TypeError(f"a selector is text such as 'cuda:0', not {selector!r}")
    kind, colon, name = selector.partition(":")
    if not colon or kind not in KINDS or not name.strip() or "\0" in name:
        raise ValueError(
            f"{selector[:80]!r} names no device: write {', '.join(f'{kind}:' for kind in KINDS)} and which"
        )
    base = os.fspath(root).rstrip("/")
    trail = Trail()
    node, source, device = _FINDERS[kind](base, name.strip(), trail)
    return Affinity(node=node, source=source, tried=tuple(trail.steps), selector=selector, device=device)


# Each finder gives the node, what told it, and the device's address or folder.


def _cuda(base: str, name: str, trail: Trail) -> tuple[int | None, str, str]:
    address, told = gpus.cuda_address(base, name, trail)
    if told is not None:
        trail.note(gpus.DRIVER, "no node" if told.node is None else f"node {told.node}")
        if told.node is not None:
            return told.node, gpus.DRIVER, address
    return _gpu_at(base, address, trail)


def _gpu(base: str, name: str, trail: Trail) -> tuple[int | None, str, str]:
    return _gpu_at(base, gpus.gpu_address(base, name, trail), trail)


def _gpu_at(base: str, address: str, trail: Trail) -> tuple[int | None, str, str]:
    if not base:
        node = _by_nvml(address, trail)
        if node is not None:
            return node, "NVML", address
    try:
        return _pci(base, address, trail)
    except PlacementError as hidden:  # the libraries know it, so it is there
        trail.note("sysfs", str(hidden.strerror))
        return None, "", address


def _by_nvml(address: str, trail: Trail) -> int | None:
    try:
        with nvml() as library:
            nodes = library.memory_nodes(address)
    except NvmlError as refusal:
        trail.note("NVML", str(refusal))
        return None
    trail.note("NVML", f"node {format(nodes)}" if nodes else "no node")
    return min(nodes) if len(nodes) == 1 else None


def _pci(base: str, name: str, trail: Trail) -> tuple[int | None, str, str]:
    node, source = _climb(base, devices.pci_folder(base, name), trail)
    return node, source, devices.pci_address(name)


def _of_folders(
    find: Callable[[str, str], list[str]],
) -> Callable[[str, str, Trail], tuple[int | None, str, str]]:
    """The finder for devices that may be made of several: these must agree."""

    def finder(base: str, name: str, trail: Trail) -> tuple[int | None, str, str]:
        folders = find(base, name)
        told = [_climb(base, folder, trail) for folder in folders]
        nodes = {node for node, _ in told}
        if len(nodes) > 1:
            names = ", ".join("none" if node is None else str(node) for node in sorted(nodes, key=str))
            trail.note("parts", f"its {len(folders)} parts are on different nodes: {names}")
            return None, "", _shown(base, folders[0])
        return (*told[0], _shown(base, folders[0]))

    return finder


_FINDERS: dict[str, Callable[[str, str, Trail], tuple[int | None, str, str]]] = {
    "cuda": _cuda,
    "gpu": _gpu,
    "netdev": _of_folders(devices.netdev_folders),
    "ip": _of_folders(devices.ip_folders),
    "block": _of_folders(devices.block_folders),
    "file": _of_folders(devices.file_folders),
    "pci": _pci,
}


def _climb(base: str, folder: str, trail: Trail) -> tuple[int | None, str]:
    """The node of the device at *folder*: its own, that of the nearest one above that has one, its CPUs'."""
    top = os.path.realpath(f"{base}/sys/devices")
    if not folder.startswith(f"{top}/") and os.path.isdir(f"{folder}/device"):
        folder = os.path.realpath(f"{folder}/device")  # a tree that was copied without its links
    here, nearest = folder, None
    while here == folder or here.startswith(f"{top}/"):
        told = number(f"{here}/numa_node")
        if told is not None:
            source = _shown(base, f"{here}/numa_node")
            trail.note(source, str(told))
            if told >= 0:
                return told, source
            nearest = nearest or here
        here = os.path.dirname(here)
    if nearest is None:
        trail.note(_shown(base, folder), "neither it nor anything above it has a numa_node")
    return _by_cpus(base, nearest or folder, trail)


def _by_cpus(base: str, folder: str, trail: Trail) -> tuple[int | None, str]:
    """The one node that has all the CPUs that the device lists as near, unless it lists them all."""
    cpus = members(f"{folder}/local_cpulist", f"{folder}/local_cpus")
    source = _shown(base, f"{folder}/local_cpulist")
    if not cpus:
        trail.note(source, "none")
        return None, ""
    system = f"{base}/sys/devices/system/node/node"
    own = {node: members(f"{system}{node}/cpulist", f"{system}{node}/cpumap") for node in node_ids(base)}
    holders = [node for node, theirs in own.items() if cpus <= theirs]
    everything = frozenset().union(*own.values()) <= cpus
    trail.note(source, f"CPU {format(cpus)}" + (", which is every one" if everything else ""))
    return (holders[0], source) if len(holders) == 1 and not everything else (None, "")


def _shown(base: str, path: str) -> str:
    """*path* as it is called below the root."""
    return path.removeprefix(os.path.realpath(base or "/").rstrip("/"))
