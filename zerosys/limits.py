"""How much memory can be had now: of nodes, of huge-page pools, of every cgroup. A forecast, no promise.

Others take memory meanwhile, and the kernel may kill for it: asking often, in small
portions, is all that can be done without a reservation.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zerosys.cgroups import hugetlb_cgroups, memory_cgroups
from zerosys.machine import RECLAIMABLE, node_ids
from zerosys.nodes import Spec, format, parse, parse_list
from zerosys.selection import one_node
from zerosys.sizes import rough_size
from zerosys.sysfs import lines, listed, number, sizes, thread_status

_FORCE = "or pass force=True, and the kernel may kill this process or another"


@dataclass(frozen=True)
class Limit:
    """Something that bounds memory: what it is, the bytes it still has, and how to get more."""

    what: str
    available: int
    remedy: str


class Headroom:
    """The limits on memory of some nodes, found once and read at each question.

    *nodes* None, or none, is wherever this process may have memory. *huge_page* is the size of the
    huge pages that are wanted, whose pools are counted instead: ask before the mapping
    is made, which reserves its pages. *root* stands for ``/`` (a recorded tree, say).
    """

    def __init__(
        self,
        nodes: Iterable[int] | None = None,
        huge_page: int | None = None,
        *,
        root: str | os.PathLike[str] = "/",
    ) -> None:
        self._root = os.fspath(root).rstrip("/")
        self._huge_page = huge_page
        named = frozenset(nodes or ())  # a policy such as Local() names none
        self._nodes = parse(named, frozenset(node_ids(self._root))) if named else self._confined()
        if huge_page is not None:
            self._cgroups = hugetlb_cgroups(Path(root), huge_page)
        else:
            self._cgroups = memory_cgroups(Path(root))
        self._kept_free = _kept_free(self._root, self._nodes) if self._nodes is not None else 0

    def limits(self, enough: int = 1 << 62) -> Iterator[Limit]:
        """Each limit as it is now; exact only where less than *enough* is left."""
        yield self._pool() if self._huge_page is not None else self._memory()
        for cgroup in self._cgroups:
            room = cgroup.room(enough)
            if room is not None:
                name = cgroup.controller.maximum
                yield Limit(
                    f"cgroup {cgroup.folder} ({name} is {rough_size(cgroup.maximum() or 0)})",
                    room,
                    f"raise {name} there (a container's memory limit, systemd's MemoryMax)",
                )

    def available(self) -> int:
        """The bytes that the tightest limit leaves."""
        return min(limit.available for limit in self.limits())

    def require(self, size: int) -> None:
        """Return if *size* bytes fit under every limit now.

        Raises OSError(ENOMEM) that names the tightest limit, both numbers, and the remedy.
        """
        tightest = min(self.limits(size), key=lambda limit: limit.available)
        if tightest.available < size:
            raise OSError(
                errno.ENOMEM,
                f"{rough_size(size)} asked, but {tightest.what} has {rough_size(tightest.available)} left: "
                f"{tightest.remedy}",
            )

    def _confined(self) -> frozenset[int] | None:
        """The nodes of the cpuset, where it leaves out any; None where the whole machine is ours."""
        filled = listed(f"{self._root}/sys/devices/system/node/has_memory") or frozenset()
        told = thread_status(self._root).get("Mems_allowed_list")
        allowed = filled if told is None else parse_list(told)
        return None if filled <= allowed else filled & allowed

    def _memory(self) -> Limit:
        if self._nodes is None:
            return Limit(
                "this machine",
                self._machine_available(),
                f"end something that holds memory, {_FORCE}",
            )
        free = sum(map(self._reclaimable, self._nodes))
        return Limit(
            _node_text(self._nodes),
            max(free - self._kept_free, 0),
            f"take another node, end something that holds memory there, {_FORCE}",
        )

    def _machine_available(self) -> int:
        told = sizes(f"{self._root}/proc/meminfo")
        if told:
            return told.get("MemAvailable", told.get("MemFree", 0))
        # Without procfs, in a bare chroot, nodes tell it, or sysinfo(2), which knows of no cache.
        of_nodes = sum(map(self._reclaimable, node_ids(self._root)))
        return of_nodes or os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def _reclaimable(self, node: int) -> int:
        """What a node can give: free pages, and pages of files and slabs that can go at once."""
        file = f"{self._root}/sys/devices/system/node/node{node}/meminfo"
        told = sizes(file, f"Node {node} ") or sizes(f"{self._root}/proc/meminfo")
        return sum(told.get(part, 0) for part in RECLAIMABLE)

    def _pool(self) -> Limit:
        page = self._huge_page or 0
        name = f"hugepages-{page >> 10}kB"
        whole = f"{self._root}/sys/kernel/mm/hugepages/{name}"
        free = _number(f"{whole}/free_hugepages") - _number(f"{whole}/resv_hugepages")
        setting = f"{whole}/nr_hugepages"
        where = "of this machine"
        if self._nodes is not None:
            system = f"{self._root}/sys/devices/system/node"
            folders = [f"{system}/node{node}/hugepages/{name}" for node in sorted(self._nodes)]
            free = min(free, sum(_number(f"{folder}/free_hugepages") for folder in folders))
            setting, where = f"{folders[0]}/nr_hugepages", f"of {_node_text(self._nodes)}"
        spare = _number(f"{whole}/nr_overcommit_hugepages") - _number(f"{whole}/surplus_hugepages")
        return Limit(
            f"the pool of {rough_size(page)} pages {where}",
            (max(free, 0) + max(spare, 0)) * page,
            f"write a larger number to {setting}, or take base pages",
        )


def available_memory(node: Spec | None = None, *, root: str | os.PathLike[str] = "/") -> int:
    """The bytes that can be had on *node* (1, "cuda:0") now, or on the whole machine.

    Free memory, and cache that can go; cgroup limits count. Raises PlacementError for a
    node that does not exist.
    """
    return Headroom(None if node is None else [one_node(node, root=root)], root=root).available()


def require_memory(
    size: int,
    nodes: Iterable[int] | None = None,
    *,
    huge_page: int | None = None,
    root: str | os.PathLike[str] = "/",
) -> None:
    """Return if *size* bytes can be had on *nodes* now; else OSError(ENOMEM), as Headroom.require()."""
    Headroom(nodes, huge_page, root=root).require(size)


def _kept_free(root: str, nodes: frozenset[int]) -> int:
    """What the kernel does not let ordinary allocations have of *nodes*: their zones' low marks."""
    pages, ours = 0, False
    for line in lines(f"{root}/proc/zoneinfo"):
        words = line.split()
        if words[:1] == ["Node"]:
            ours = int(words[1].rstrip(",")) in nodes
        elif ours and words[:1] == ["low"] and len(words) == 2:
            pages += int(words[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _number(file: str) -> int:
    return number(file) or 0


def _node_text(nodes: frozenset[int]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {format(nodes)}"
