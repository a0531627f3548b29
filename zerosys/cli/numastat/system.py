"""numastat's tables of the whole machine: what was allocated where, and each node's meminfo."""

from __future__ import annotations

import os

from zerosys.cli.numastat.table import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = "/sys/devices/system/node"
COUNTERS = ("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node")
# Those that the original knows, in its order. Others are named above the table, in its words.
MEMINFO = """
    MemTotal MemFree MemUsed HighTotal HighFree LowTotal LowFree Active Inactive Active(anon)
    Inactive(anon) Active(file) Inactive(file) Unevictable Mlocked Dirty Writeback FilePages Mapped
    AnonPages Shmem KernelStack PageTables NFS_Unstable Bounce WritebackTmp Slab SReclaimable
    SUnreclaim AnonHugePages ShmemHugePages ShmemPmdMapped HugePages_Total HugePages_Free
    HugePages_Surp KReclaimable
""".split()
MIB = float(1 << 20)
_UNKNOWN = "Token {} not in hash table.\n"


def node_numbers() -> list[int]:
    """The machine's nodes, ascending; none where sysfs does not tell of any."""
    try:
        names = os.listdir(NODES)
    except FileNotFoundError:
        return []
    return sorted(int(name[4:]) for name in names if name.startswith("node") and name[4:].isdecimal())


def pages(nodes: list[int]) -> tuple[Table, list[str]]:
    """The six counters in pages, as numastat alone prints them; a line for each name that is none of them."""
    table = Table([f"node{node}" for node in nodes], COUNTERS, total=False)
    return table, _count(table, nodes, 1.0)


def megabytes(nodes: list[int]) -> tuple[Table, list[str]]:
    """The six counters in megabytes, with their sums (-n)."""
    titles = ["_".join(word.capitalize() for word in name.split("_")) for name in COUNTERS]
    table = Table([f"Node {node}" for node in nodes], titles)
    return table, _count(table, nodes, os.sysconf("SC_PAGESIZE") / MIB)


def _count(table: Table, nodes: list[int], unit: float) -> list[str]:
    unknown = []
    for column, node in enumerate(nodes):
        for name, value, *_ in _lines(f"{NODES}/node{node}/numastat"):
            if name in COUNTERS:
                table.add(COUNTERS.index(name), column, int(value) * unit)
            else:
                unknown.append(name)
    return [_UNKNOWN.format(name) for name in unknown]


def meminfo(nodes: list[int]) -> tuple[Table, list[str]]:
    """Each node's meminfo in megabytes (-m)."""
    table = Table([f"Node {node}" for node in nodes], MEMINFO)
    unknown = []
    huge = huge_page_size()
    for column, node in enumerate(nodes):
        for _, _, name, value, *_ in _lines(f"{NODES}/node{node}/meminfo"):
            name = name.rstrip(":")
            if name in MEMINFO:
                unit = huge if name.startswith("HugePages") else 1024
                table.add(MEMINFO.index(name), column, int(value) * unit / MIB)
            else:
                unknown.append(name)
    return table, [_UNKNOWN.format(name) for name in unknown]


def huge_page_size() -> int:
    """The bytes of a huge page of the usual size; 0 where the kernel has none."""
    return next((int(words[1]) * 1024 for words in _lines("/proc/meminfo") if words[0] == "Hugepagesize:"), 0)


def _lines(path: str) -> Iterator[list[str]]:
    """The words of each line of the file that has some."""
    with open(path, encoding="ascii") as file:
        yield from filter(None, map(str.split, file))
