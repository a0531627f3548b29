"""What ``zerosys stat`` prints of a process: one table, or JSON."""

from __future__ import annotations

import json
import os
import sys

from zerosys.cli import said
from zerosys.cli.stat.smaps import Totals, transparent_huge
from zerosys.cli.stat.tally import Group, Tally
from zerosys.cli.table import plain, table
from zerosys.machine import node_ids
from zerosys.sizes import show_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any


class Process:
    """What was found of one process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid or os.getpid()
        self.tally = Tally(self.pid)
        self.totals = Totals(self.pid)
        self.huge = transparent_huge(self.pid) if self.totals.transparent_huge else {}
        self.name, self.owner = identity(self.pid)


def identity(pid: int) -> tuple[str, int]:
    """The process's name and its user's number; "" and -1 where it ended meanwhile."""
    try:
        with open(f"/proc/{pid}/comm", errors="surrogateescape", newline="\n") as file:
            return file.read().removesuffix("\n"), os.stat(f"/proc/{pid}").st_uid
    except (FileNotFoundError, ProcessLookupError):
        return "", -1


def show(chosen: argparse.Namespace, prog: str) -> int:
    """Print each process of *chosen*; the exit status is 1 where one could not be looked at."""
    found = []
    for pid in chosen.pids:
        try:
            found.append(Process(pid))
        except OSError as refusal:
            print(f"{prog}: {said(refusal)}", file=sys.stderr)
    if chosen.json:
        json.dump({"processes": [as_dict(one) for one in found]}, sys.stdout, indent=2)
        print()
    elif found:
        print("\n\n".join(text(one, chosen.largest) for one in found))
    return 0 if len(found) == len(chosen.pids) else 1


def as_dict(one: Process) -> dict[str, object]:
    """*one* as docs/schemas/stat.json has it. Sizes are bytes; nothing is left out."""
    return {
        "pid": one.pid,
        "command": one.name,
        "uid": one.owner,
        **_numbers(one.tally.all),
        "transparent_huge": one.totals.transparent_huge,
        "swapped": one.totals.swapped,
        "locked": one.totals.locked,
        "policies": [{"policy": policy, **_numbers(group)} for policy, group in _largest(one.tally.policies)],
        "page_sizes": [
            {"page_size": size, **_numbers(group)} for size, group in sorted(one.tally.page_sizes.items())
        ],
        "mapped": [
            {
                "kind": "anonymous" if kind == "other" else kind,
                "file": file or None,
                **_numbers(group),
                "transparent_huge": one.huge.get((kind, file), 0),
            }
            for (kind, file), group in _largest(one.tally.what)
        ],
    }


def _numbers(group: Group) -> dict[str, object]:
    nodes = {str(node): size for node, size in sorted(group.nodes.items())}
    return {"mappings": group.mappings, "bytes": group.bytes, "nodes": nodes}


def _largest(groups: dict[Any, Group]) -> list[tuple[Any, Group]]:
    return sorted(groups.items(), key=lambda item: (-item[1].bytes, item[0]))


def text(one: Process, largest: int) -> str:
    """*one* as a table of MiB, with the *largest* of what is mapped (0: all)."""
    tally, huge = one.tally, one.totals.transparent_huge
    nodes = sorted({*node_ids(), *tally.all.nodes})
    rows = [_row("all", tally.all, nodes)]
    rows += _section("policy", _largest(tally.policies), nodes, plain)
    rows += _section("page size", sorted(tally.page_sizes.items()), nodes, show_size)
    if huge:
        rows.append(["  of it transparent huge", *[""] * (len(nodes) + 1), mib(huge)])
    found = _largest(tally.what)
    shown = found[: largest or None]
    rows += _section("mapped", shown, nodes, named)
    if len(found) > len(shown):
        rest = Group()
        for _, group in found[len(shown) :]:
            rest.take(group)
        rows.append(_row(f"  {len(found) - len(shown)} more", rest, nodes))
    head = ["MiB", *(f"N{node}" for node in nodes), "TOTAL", "MAPPINGS"]
    return f"{_heading(one)}\n{table(head, rows, right=' '.join(head[1:]))}"


def _heading(one: Process) -> str:
    parts = [f"{plain(one.name)}, user {owner_name(one.owner)}" if one.name else "ended meanwhile"]
    if not one.tally.all.mappings:
        parts.append("no memory of its own: a kernel thread, or ended and not waited for")
    for what, size in (("swapped", one.totals.swapped), ("locked", one.totals.locked)):
        if size:
            parts.append(f"{mib(size)} MiB {what}")
    return f"process {one.pid} ({'; '.join(parts)})"


def _section(
    title: str, groups: list[tuple[Any, Group]], nodes: list[int], name: Callable[[Any], str]
) -> list[list[str]]:
    return [
        [title, *[""] * (len(nodes) + 2)],
        *(_row(f"  {name(key)}", group, nodes) for key, group in groups),
    ]


def _row(title: str, group: Group, nodes: list[int]) -> list[str]:
    cells = [mib(group.nodes[node]) if node in group.nodes else "-" for node in nodes]
    return [title, *cells, mib(group.bytes), str(group.mappings)]


def named(key: tuple[str, str]) -> str:
    """What is mapped, for people: a file's path, or what the kernel says that it is for."""
    use, file = key
    return plain(file) if file else {"other": "anonymous"}.get(use, use)


def mib(size: int) -> str:
    """*size* bytes in MiB; what is there is not shown as nothing."""
    return f"{size / (1 << 20):.1f}" if size >= 52429 or not size else "<0.1"


def owner_name(uid: int) -> str:
    """The user's name, or the number of one who has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
