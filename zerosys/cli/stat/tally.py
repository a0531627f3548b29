"""A process's memory by node, counted three ways in one pass: by policy, by page size, by what is mapped."""

from __future__ import annotations

from zerosys.numa_maps import parse_range, process_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from zerosys.numa_maps import MappedRange

#: Many mappings have the same line but for its address: so many different ones are counted, then read.
_LINES = 1024
#: So many different files are told apart; what is mapped of further ones is counted together.
_NAMES = 1_000
#: The name that stands for these, and as numa_maps would write it.
FURTHER = "further files"
_FURTHER = FURTHER.replace(" ", "\\040")


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
        names: set[str] = set()
        for line in process_lines(pid, "numa_maps"):
            text = _nameless(line.rstrip("\n").partition(" ")[2], names)
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
            _group(self.what, (mapped.use, mapped.file or "")).add(mapped, times)
        seen.clear()


def _nameless(text: str, names: set[str]) -> str:
    """*text* with its file's name, where *names* is full without it, as that of all further files."""
    before, mark, after = text.partition(" file=")
    if not mark:
        return text
    name, gap, numbers = after.partition(" ")
    if name in names:
        return text
    if len(names) < _NAMES:
        names.add(name)
        return text
    return f"{before} file={_FURTHER}{gap}{numbers}"


def _group(groups: dict[Any, Group], key: Hashable) -> Group:
    return groups.setdefault(key, Group())
