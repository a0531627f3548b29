"""The machine's nodes as the kernel tells them in sysfs and procfs, under a root that can be replaced.

Read afresh at each call: nodes, CPUs and cpusets change while a process runs.
"""

from __future__ import annotations

import os

from zerosys.hmat import Access, Device, access_classes, dax_media, gpu_nodes, memory_tiers
from zerosys.nodes import parse_list
from zerosys.record import Record
from zerosys.sysfs import (
    entries,
    listed,
    members,
    number,
    numbered,
    sizes,
    strange,
    text,
    thread_status,
)

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, TypeAlias

    Kind: TypeAlias = Literal["ordinary", "no cpus", "no memory", "device"]

#: The parts of a node's memory that it can give at once: what is free, and what can be dropped.
RECLAIMABLE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")


class Node(Record):
    """One NUMA node. Memory and huge pages are in bytes and pages at the time of asking.

    ``cpus`` are its own, offline ones where the kernel lists them; ``allowed_cpus`` those online
    ones on which this thread may run; ``allowed`` is whether it may have memory here.
    ``memory_available`` is what is free and what can be dropped at once. ``huge_pages`` is
    {size in bytes: (pages in the pool, free ones)}; ``distances`` {node: distance, 10 being near},
    empty where not told. ``kind`` "no cpus" is memory alone (CXL, HBM, a DIMM of its own), "no memory"
    CPUs alone, "device" the memory of ``device``, a GPU. ``medium`` is "GPU", "NVM" or "CXL" where the
    kernel tells what the memory is made of. ``access`` is {class: Access}: 0 from the nearest
    initiators, 1 from the nearest CPUs; ``tier`` the number of its memory tier, the lower
    the faster.
    """

    id: int
    cpus: frozenset[int]
    online_cpus: frozenset[int]
    allowed_cpus: frozenset[int]
    allowed: bool
    memory_total: int
    memory_free: int
    memory_available: int
    huge_pages: Mapping[int, tuple[int, int]]
    distances: Mapping[int, int]
    kind: Kind
    access: Mapping[int, Access]
    medium: str | None = None
    device: Device | None = None
    tier: int | None = None


class Topology(Record):
    """The nodes by number, which may have gaps, and which of them this thread may use.

    ``available`` False: there is no node directory; the one node is assumed, and holds
    everything. ``allowed_nodes`` have memory that this thread may have; ``balancing`` is whether
    the kernel moves pages towards their users by itself (NUMA balancing; any snapshot of pages is
    then old at once), None where the kernel does not tell.
    """

    nodes: Mapping[int, Node]
    available: bool
    allowed_nodes: frozenset[int]
    allowed_cpus: frozenset[int]
    online_cpus: frozenset[int]
    balancing: bool | None

    @property
    def all_nodes(self) -> frozenset[int]:
        """What "all" means for memory: the allowed nodes, without devices' own memory."""
        return frozenset(id for id in self.allowed_nodes if self.nodes[id].kind != "device")

    @property
    def nodes_with_cpus(self) -> frozenset[int]:
        """Nodes on which something can run now."""
        return frozenset(node.id for node in self.nodes.values() if node.online_cpus)

    @property
    def nodes_with_memory(self) -> frozenset[int]:
        """Nodes on which memory can lie."""
        return frozenset(node.id for node in self.nodes.values() if node.memory_total)

    def node_of_cpu(self, cpu: int) -> int | None:
        """The node that *cpu* belongs to, or None for a CPU that no node lists."""
        return next((node.id for node in self.nodes.values() if cpu in node.cpus), None)

    def nearest_cpus(self, node: int) -> frozenset[int]:
        """The online CPUs from which *node* is reached best: its own; of a node without, the nearest nodes'.

        What the kernel tells of its device, and of access from CPUs, comes before distances. Empty
        where nothing is told.
        """
        one = self.nodes[node]
        near: frozenset[int] = frozenset()
        own = one.online_cpus or (one.device.cpus & self.online_cpus if one.device else near)
        if own:
            return own
        if 1 in one.access:
            near = one.access[1].initiators & self.nodes_with_cpus
        if not near:
            far = {other: one.distances[other] for other in self.nodes_with_cpus if other in one.distances}
            near = frozenset(other for other in far if far[other] == min(far.values()))
        return frozenset().union(*(self.nodes[other].online_cpus for other in near))


def topology(root: str | os.PathLike[str] = "/") -> Topology:
    """Read the machine below *root*, which stands for ``/`` (a recorded tree, say).

    A machine without a node directory is one node, 0, with all CPUs and all memory,
    and ``available`` is False. Raises OSError only where *root* itself is missing, and ValueError
    that names the file where one says something else than the kernel does.
    """
    base = os.fspath(root).rstrip("/")
    os.stat(base or "/")
    status = thread_status(base)
    # Without sysfs, in a bare chroot, those that this process may run on are all that can be known.
    online = _online_cpus(f"{base}/sys/devices/system/cpu") or _allowed(
        status, "Cpus_allowed_list", frozenset()
    )
    allowed_cpus = online & _allowed(status, "Cpus_allowed_list", online)
    everything = frozenset(node_ids(base))
    reader = _Reader(base, online, allowed_cpus, _allowed(status, "Mems_allowed_list", everything))
    nodes, available = reader.nodes()
    balancing = number(f"{base}/proc/sys/kernel/numa_balancing")
    return Topology(
        nodes=nodes,
        available=available,
        allowed_nodes=frozenset(node.id for node in nodes.values() if node.allowed),
        allowed_cpus=allowed_cpus,
        online_cpus=online,
        balancing=None if balancing is None else balancing != 0,
    )


def node_ids(root: str | os.PathLike[str] = "/") -> list[int]:
    """The numbers of the machine's nodes, which may have gaps: the cheap part of topology()."""
    return numbered(f"{os.fspath(root)}/sys/devices/system/node", "node") or [0]


class _Reader:
    """What all nodes are read with."""

    def __init__(
        self, base: str, online: frozenset[int], allowed_cpus: frozenset[int], mems: frozenset[int]
    ) -> None:
        self.base, self.online, self.allowed_cpus, self.mems = base, online, allowed_cpus, mems
        self.folder = f"{base}/sys/devices/system/node"

    def nodes(self) -> tuple[dict[int, Node], bool]:
        ids = numbered(self.folder, "node")
        if not ids:
            return {0: self._assumed()}, False
        # The columns of a distance file are the nodes that are online, in order.
        self.columns = sorted(listed(f"{self.folder}/online") or ids)
        self.gpus = gpu_nodes(self.base)
        self.media = dax_media(self.base) | dict.fromkeys(self.gpus, "GPU")
        self.tiers = memory_tiers(self.base)
        return {id: self._node(id) for id in ids}, True

    def _node(self, id: int) -> Node:
        folder = f"{self.folder}/node{id}"
        inside = entries(folder)
        meminfo = sizes(f"{folder}/meminfo", f"Node {id} ")
        cpus = members(f"{folder}/cpulist", f"{folder}/cpumap")
        return self._made(
            id,
            cpus,
            meminfo,
            huge_pages=_huge_pages(f"{folder}/hugepages"),
            distances=_distances(f"{folder}/distance", self.columns),
            medium=self.media.get(id),
            device=self.gpus.get(id),
            access=access_classes(folder, inside),
            tier=self.tiers.get(id),
        )

    def _assumed(self) -> Node:
        meminfo = sizes(f"{self.base}/proc/meminfo")
        pools = _huge_pages(f"{self.base}/sys/kernel/mm/hugepages")
        return self._made(0, self.online, meminfo, huge_pages=pools, distances={0: 10}, access={})

    def _made(self, id: int, cpus: frozenset[int], meminfo: dict[str, int], **facts: object) -> Node:
        total, online = meminfo.get("MemTotal", 0), cpus & self.online
        device = facts.get("device")
        return Node(
            id=id,
            cpus=cpus,
            online_cpus=online,
            allowed_cpus=cpus & self.allowed_cpus,
            allowed=total > 0 and id in self.mems,
            memory_total=total,
            memory_free=meminfo.get("MemFree", 0),
            memory_available=sum(meminfo.get(part, 0) for part in RECLAIMABLE),
            kind=_kind(total, online, device is not None),
            **facts,
        )


def _kind(memory: int, online: frozenset[int], device: bool) -> Kind:
    if device:
        return "device"
    if not memory:
        return "no memory"
    return "ordinary" if online else "no cpus"


def _online_cpus(folder: str) -> frozenset[int]:
    online = listed(f"{folder}/online")
    if online:
        return online
    # Old kernels: a CPU is online unless its own file says otherwise.
    return frozenset(cpu for cpu in numbered(folder, "cpu") if text(f"{folder}/cpu{cpu}/online") != "0")


def _distances(file: str, columns: list[int]) -> dict[int, int]:
    try:
        values = [int(value) for value in (text(file) or "").split()]
    except ValueError as wrong:
        raise strange(file, wrong) from None
    # Of another length, the columns are not ours to name.
    return dict(zip(columns, values, strict=True)) if len(values) == len(columns) else {}


def _huge_pages(folder: str) -> dict[int, tuple[int, int]]:
    pools = {}
    for kibibytes in numbered(folder, "hugepages-", "kB"):
        pool = f"{folder}/hugepages-{kibibytes}kB"
        pools[kibibytes * 1024] = (
            number(f"{pool}/nr_hugepages") or 0,
            number(f"{pool}/free_hugepages") or 0,
        )
    return pools


def _allowed(status: dict[str, str], key: str, everything: frozenset[int]) -> frozenset[int]:
    return parse_list(status[key]) if key in status else everything
