"""What the firmware tells of memory beside its size: access from initiators, tiers, what it is made of."""

from __future__ import annotations

import os

from zerosys.record import Record
from zerosys.sysfs import entries, fields, listed, members, number, numbered

_MEASURES = ("read_bandwidth", "write_bandwidth", "read_latency", "write_latency")


class Access(Record):
    """How fast a node's memory is for its nearest initiators, which are nodes.

    ``initiators`` have CPUs or are devices that reach memory by themselves. Bandwidths are in
    MiB a second, latencies in nanoseconds; None where the firmware does not tell.
    """

    initiators: frozenset[int]
    read_bandwidth: int | None
    write_bandwidth: int | None
    read_latency: int | None
    write_latency: int | None


def access_classes(node: str, inside: list[str]) -> dict[int, Access]:
    """The classes of access to the node whose folder is *node*, with these entries in it."""
    names = [name for name in inside if name.startswith("access") and name[6:].isdigit()]
    return {int(name[6:]): _access(f"{node}/{name}/initiators") for name in sorted(names)}


def _access(folder: str) -> Access:
    return Access(
        initiators=frozenset(numbered(folder, "node")),
        **{name: number(f"{folder}/{name}") for name in _MEASURES},
    )


def memory_tiers(base: str) -> dict[int, int]:
    """{node: number of its memory tier}, as Linux tells since 6.1; the lower, the faster."""
    folder = f"{base}/sys/devices/virtual/memory_tiering"
    tiers = {}
    for tier in numbered(folder, "memory_tier"):
        for node in listed(f"{folder}/memory_tier{tier}/nodelist") or ():
            tiers[node] = tier
    return tiers


def dax_media(base: str) -> dict[int, str]:
    """{node: what its memory is made of}, of the nodes that DAX devices became: "NVM" or "CXL"."""
    folder = f"{base}/sys/bus/dax/drivers/kmem"
    media = {}
    for name in entries(folder):
        node = number(f"{folder}/{name}/target_node")
        if node is None:
            continue
        path = os.path.realpath(f"{folder}/{name}").removeprefix(os.path.realpath(base or "/"))
        if "/ndbus" in path:
            media[node] = "NVM"
        elif "/ACPI0017" in path:  # the root of what CXL there is
            media[node] = "CXL"
    return media


class Device(Record):
    """A GPU that brings a node: its PCI address, and the CPUs next to it."""

    address: str
    cpus: frozenset[int]


def gpu_nodes(base: str) -> dict[int, Device]:
    """{node: GPU}, of the nodes that are a GPU's own memory, which its driver lists."""
    folder = f"{base}/proc/driver/nvidia/gpus"
    found = {}
    for address in entries(folder):
        node = fields(f"{folder}/{address}/numa_status").get("Node", "")
        if node.isdigit():
            device = f"{base}/sys/bus/pci/devices/{address}"
            cpus = members(f"{device}/local_cpulist", f"{device}/local_cpus")
            found[int(node)] = Device(address=address, cpus=cpus)
    return found
