"""A process's memory by node, counted three ways in one pass: by policy, by page size, by what is mapped."""

from __future__ import annotations

from zerosys.numa_maps import parse_range, process_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from zerosys.numa_maps import MappedRange

#: Many mappings have the same line but for its address: so many different ones are counted, then read.
_LINES = 4096
#: So many different files are told apart; what is mapped of further ones is counted together.
_NAMES = 10_000
#: The name that stands for these.
FURTHER = "further files"


class Group:
    """Mappings that have something in common, and their bytes by node."""

    __slots__ = ("mappings", "nodes")

    def __init__(self) -> None:
        self.mappings = 0
        self.nodes: dict[int, int] = {}

    @property
    def bytes(self) -> int:
        return sum(self.nodes.values())

    def add(self, mapped: MappedRange, times: int) -> None:
        self.mappings += times
        for node, pages in mapped.nodes.items():
            self.nodes[node] = self.nodes.get(node, 0) + pages * mapped.page_size * times

    def take(self, other: Group) -> None:
        self.mappings += other.mappings
        for node, size in other.nodes.items():
            self.nodes[node] = self.nodes.get(node, 0) + size


class Tally:
    """The memory of process *pid*, whose mappings are never all in memory here."""

    def __init__(self, pid: int) -> None:
        self.all = Group()
        self.policies: dict[str, Group] = {}
        self.page_sizes: dict[int, Group] = {}
        self.what: dict[tuple[str, str], Group] = {}
        seen: dict[str, int] = {}
        for line in process_lines(pid, "numa_maps"):
            text = line.partition(" ")[2]
            seen[text] = seen.get(text, 0) + 1
            if len(seen) > _LINES:
                self._count(seen)
        self._count(seen)

    def _count(self, seen: dict[str, int]) -> None:
        for text, times in seen.items():
            mapped = parse_range(f"0 {text}")
            self.all.add(mapped, times)
            _group(self.policies, mapped.policy).add(mapped, times)
            if mapped.nodes:
                _group(self.page_sizes, mapped.page_size).add(mapped, times)
            key = mapped.use, mapped.file or ""
            if len(self.what) >= _NAMES and key not in self.what:
                key = "file", FURTHER
            _group(self.what, key).add(mapped, times)
        seen.clear()


def _group(groups: dict[Any, Group], key: Hashable) -> Group:
    return groups.setdefault(key, Group())
