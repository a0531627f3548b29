"""The machine's nodes as the kernel tells them in sysfs and procfs, under a root that can be replaced.

Read afresh at each call: nodes, CPUs and cpusets change while a process runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zerosys.nodes import parse_list

Kind = Literal["ordinary", "no cpus", "no memory", "device"]


@dataclass(frozen=True)
class Node:
    """One NUMA node. Memory and huge pages are in bytes and pages at the time of asking."""

    id: int
    cpus: frozenset[int]  # its own, offline ones where the kernel lists them
    online_cpus: frozenset[int]
    memory_total: int
    memory_free: int
    huge_pages: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # size: (total, free)
    distances: Mapping[int, int] = field(default_factory=dict)  # empty where not told
    kind: Kind = "ordinary"


@dataclass(frozen=True)
class Topology:
    """The nodes by number, which may have gaps, and which of them this process may use."""

    nodes: Mapping[int, Node]
    available: bool  # False: no node directory; the one node is assumed, and holds everything
    allowed_nodes: frozenset[int]  # where this process may have memory
    allowed_cpus: frozenset[int]
    online_cpus: frozenset[int]

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


def topology(root: str | os.PathLike[str] = "/") -> Topology:
    """Read the machine below *root*, which stands for ``/`` (a recorded tree, say).

    A machine without a node directory is one node, 0, with all CPUs and all memory,
    and ``available`` is False. Raises OSError only where *root* itself is missing.
    """
    base = Path(root)
    base.stat()
    system = base / "sys/devices/system"
    status = _fields(base / "proc/self/status")
    # Without sysfs, in a bare chroot, those that this process may run on are all that can be known.
    cpus = _online_cpus(system / "cpu") or _allowed(status, "Cpus_allowed_list", frozenset())
    ids = _numbered(system / "node", "node")
    if ids:
        nodes = _nodes(base, ids, cpus)
    else:
        nodes = {0: _assumed_node(base, cpus)}
    memory = frozenset(node.id for node in nodes.values() if node.memory_total)
    return Topology(
        nodes=nodes,
        available=bool(ids),
        allowed_nodes=memory & _allowed(status, "Mems_allowed_list", memory),
        allowed_cpus=cpus & _allowed(status, "Cpus_allowed_list", cpus),
        online_cpus=cpus,
    )


def _nodes(base: Path, ids: list[int], online: frozenset[int]) -> dict[int, Node]:
    folder = base / "sys/devices/system/node"
    # The columns of a distance file are the nodes that are online, in order.
    listed = _text(folder / "online")
    columns = sorted(parse_list(listed)) if listed else ids
    device = _device_nodes(base)
    return {id: _node(folder / f"node{id}", id, columns, online, id in device) for id in ids}


def _node(folder: Path, id: int, columns: list[int], online: frozenset[int], device: bool) -> Node:
    meminfo = _sizes(_fields(folder / "meminfo", prefix=f"Node {id} "))
    cpus = _cpus_of(folder)
    total = meminfo.get("MemTotal", 0)
    return Node(
        id=id,
        cpus=cpus,
        online_cpus=cpus & online,
        memory_total=total,
        memory_free=meminfo.get("MemFree", 0),
        huge_pages=_huge_pages(folder / "hugepages"),
        distances=_distances(folder / "distance", columns),
        kind="device" if device else "no memory" if not total else "ordinary" if cpus & online else "no cpus",
    )


def _assumed_node(base: Path, cpus: frozenset[int]) -> Node:
    meminfo = _sizes(_fields(base / "proc/meminfo"))
    return Node(
        id=0,
        cpus=cpus,
        online_cpus=cpus,
        memory_total=meminfo.get("MemTotal", 0),
        memory_free=meminfo.get("MemFree", 0),
        huge_pages=_huge_pages(base / "sys/kernel/mm/hugepages"),
        distances={0: 10},
    )


def node_ids(root: str | os.PathLike[str] = "/") -> list[int]:
    """The numbers of the machine's nodes, which may have gaps: the cheap part of topology()."""
    return _numbered(Path(root, "sys/devices/system/node"), "node") or [0]


def _online_cpus(folder: Path) -> frozenset[int]:
    listed = _text(folder / "online")
    if listed:
        return parse_list(listed)
    # Old kernels: a CPU is online unless its own file says otherwise.
    return frozenset(cpu for cpu in _numbered(folder, "cpu") if _text(folder / f"cpu{cpu}/online") != "0")


def _cpus_of(node: Path) -> frozenset[int]:
    listed = _text(node / "cpulist")
    if listed is not None:
        return parse_list(listed)
    words = (_text(node / "cpumap") or "0").split(",")
    bits = int("".join(word.strip().rjust(8, "0") for word in words), 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def _distances(file: Path, columns: list[int]) -> dict[int, int]:
    values = [int(value) for value in (_text(file) or "").split()]
    # Of another length, the columns are not ours to name.
    return dict(zip(columns, values, strict=True)) if len(values) == len(columns) else {}


def _huge_pages(folder: Path) -> dict[int, tuple[int, int]]:
    """{size in bytes: (pages in the pool, free ones)}."""
    pools = {}
    for kibibytes in _numbered(folder, "hugepages-", "kB"):
        pool = folder / f"hugepages-{kibibytes}kB"
        total, free = _text(pool / "nr_hugepages"), _text(pool / "free_hugepages")
        pools[kibibytes * 1024] = int(total or 0), int(free or 0)
    return pools


def _device_nodes(base: Path) -> frozenset[int]:
    """The nodes that are a GPU's own memory, which its driver lists."""
    found = set()
    for file in base.glob("proc/driver/nvidia/gpus/*/numa_status"):
        number = _fields(file).get("Node", "")
        if number.isdigit():
            found.add(int(number))
    return frozenset(found)


def _allowed(status: dict[str, str], key: str, everything: frozenset[int]) -> frozenset[int]:
    return parse_list(status[key]) if key in status else everything


def _numbered(folder: Path, prefix: str, suffix: str = "") -> list[int]:
    """The numbers of the entries called *prefix*NUMBER*suffix*, ascending."""
    name = re.compile(f"{re.escape(prefix)}([0-9]+){re.escape(suffix)}")
    try:
        entries = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for match in map(name.fullmatch, entries) if match)


def _text(file: Path) -> str | None:
    """What *file* says, stripped; None where it is not there."""
    try:
        return file.read_text().strip(" \n\0")  # recorded trees keep a NUL at the end
    except (FileNotFoundError, NotADirectoryError):
        return None


def _fields(file: Path, prefix: str = "") -> dict[str, str]:
    """The ``key: value`` lines of *file*, without *prefix*."""
    pairs = (line.strip().removeprefix(prefix).partition(":") for line in (_text(file) or "").splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _sizes(fields: dict[str, str]) -> dict[str, int]:
    """The fields that are sizes (``123 kB``), in bytes."""
    split = {key: value.split() for key, value in fields.items()}
    return {key: int(words[0]) * 1024 for key, words in split.items() if words[1:] == ["kB"]}
