"""numastat's tables of processes: whom a PID or a pattern means, and where their memory lies."""

from __future__ import annotations

import os
import sys
from functools import partial

from zerosys.cli.c_numbers import atoi
from zerosys.cli.numastat.system import MIB, huge_page_size
from zerosys.cli.numastat.table import Table
from zerosys.numa_maps import parse_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROWS = ("Huge", "Heap", "Stack", "Private")
HUGE, PRIVATE = 0, 3
KINDS = {"heap": 1, "stack": 2}


def wanted(words: Iterable[str]) -> list[int]:
    """The processes that *words* mean, ascending: each a PID, or a text in a command line or name."""
    found = set()
    for word in words:
        if all("0" <= char <= "9" for char in word):
            found.add(atoi(word))
            continue
        matching = [pid for pid in _others() if word in _command_line(pid) or word in (name_of(pid) or "")]
        if not matching:
            print(f'Found no processes containing pattern: "{word}"')
        found.update(matching)
    return sorted(found)


def _others() -> list[int]:
    """Every process but this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]


def _command_line(pid: int) -> str:
    return _text(f"/proc/{pid}/cmdline").replace("\0", " ")


def name_of(pid: int) -> str | None:
    """The process's name; None where it cannot be told, as for one that is gone."""
    for line in _text(f"/proc/{pid}/status").split("\n"):
        if line.startswith("Name:"):
            return line[5:].strip(" \t")
    return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="latin-1", newline="\n") as file:
            return file.read()
    except OSError:
        return ""


def label(pid: int) -> str:
    name = name_of(pid)
    return f"{pid} ({'(null)' if name is None else name})"


def kinds(nodes: list[int]) -> Table:
    """The table of one process's memory by kind and node."""
    return _table(nodes, ROWS, corner="")


def detail(table: Table, pid: int, nodes: list[int]) -> bool:
    """Have *table*, one of kinds(), tell of *pid*; False where that cannot be read, which was said."""
    table.empty()
    return _add(pid, nodes, table.add)


def summed(pids: list[int], nodes: list[int]) -> Table | None:
    """A line for each of *pids*; None where the last cannot be read, as in the original."""
    table = _table(nodes, [label(pid) for pid in pids], corner="PID")
    readable = False
    for row, pid in enumerate(pids):
        add = partial(_add_to_row, table, row)
        readable = _add(pid, nodes, add)
    return table if readable else None


def _add_to_row(table: Table, row: int, kind: int, column: int | None, amount: float) -> None:
    table.add(row, column, amount)


def _table(nodes: list[int], rows: Sequence[str], corner: str) -> Table:
    """A table in which every row is shown, whether or not it gets a number."""
    table = Table([f"Node {node}" for node in nodes], rows, footer=True, corner=corner)
    for row in range(len(rows)):
        table.add(row, None, 0.0)
    return table


def _add(pid: int, nodes: list[int], add: Callable[[int, int | None, float], None]) -> bool:
    """Hand each count of the process's pages, in megabytes, to *add*; say it where they cannot be read."""
    columns = {node: column for column, node in enumerate(nodes)}
    small, huge = os.sysconf("SC_PAGESIZE") / MIB, huge_page_size() / MIB
    path = f"/proc/{pid}/numa_maps"
    try:
        with open(path, encoding="latin-1", newline="\n") as file:
            for mapped in map(parse_range, file):
                kind = HUGE if mapped.huge else KINDS.get(mapped.use, PRIVATE)
                for node, count in mapped.nodes.items():
                    add(kind, columns.get(node), count * (huge if kind == HUGE else small))
    except OSError as refusal:
        print(f"Can't read {path}: {refusal.strerror}", file=sys.stderr)
        return False
    return True
