"""``zerosys migrate``: move a process's memory between nodes, and tell what moved and what did not."""

from __future__ import annotations

import argparse
import json

from zerosys.cli.arguments import process
from zerosys.cli.table import plain, table
from zerosys.cli.usage import Help, Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zerosys.numa_maps import MappedRange

EXAMPLES = """examples:
  zerosys migrate 4711 0 1             what process 4711 has on node 0 goes to node 1
  zerosys migrate 4711 all 2-3         everything, the n-th node's to the n-th
  zerosys migrate self 0 1 --json      as JSON (docs/schemas/migrate.json)

exit status:
  0    none of its pages is left on FROM, but on nodes of TO
  1    some stayed, or the kernel refused; what and why is told
  2    wrong usage
"""
#: So many of the mappings that stayed are listed.
LISTED = 10


def parser(prog: str) -> argparse.ArgumentParser:
    """The command's arguments."""
    made = Parser(
        prog=prog,
        description="Move the pages that a process has on the nodes FROM to the nodes TO, look where all"
        " are then, and tell what stayed and why. New pages go where its policy says, as before.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    made.add_argument("pid", metavar="PID", type=process, help='a process\'s number, or "self"')
    made.add_argument("old", metavar="FROM", help="nodes, such as 0, 0-1 or all")
    made.add_argument("new", metavar="TO", help="nodes")
    made.add_argument("--json", action="store_true", help="print it as JSON")
    return made


class Census:
    """A process's bytes by node at one time, and its mappings with pages on *watched* nodes."""

    def __init__(self, pid: int, watched: frozenset[int]) -> None:
        from zerosys.numa_maps import read_numa_maps

        self.nodes: dict[int, int] = {}
        self.left: list[MappedRange] = []
        for mapped in read_numa_maps(pid):
            for node, pages in mapped.nodes.items():
                self.nodes[node] = self.nodes.get(node, 0) + pages * mapped.page_size
            if watched & mapped.nodes.keys():
                self.left.append(mapped)
                if len(self.left) > 4 * LISTED:  # only the largest are told
                    self.left = largest(self.left, watched)
        self.left = largest(self.left, watched)


def largest(ranges: list[MappedRange], watched: frozenset[int]) -> list[MappedRange]:
    return sorted(ranges, key=lambda one: -on(one, watched))[:LISTED]


def on(mapped: MappedRange, nodes: frozenset[int]) -> int:
    """The bytes of *mapped* on *nodes*."""
    return sum(pages for node, pages in mapped.nodes.items() if node in nodes) * mapped.page_size


def main(argv: list[str], prog: str) -> int:
    """Move and tell; return the exit status."""
    chosen = parser(prog).parse_args(argv)
    from zerosys.migration import migrate
    from zerosys.selection import node_set

    old, new = node_set(chosen.old), node_set(chosen.new)
    before = Census(chosen.pid, frozenset())
    refused = migrate(chosen.pid, old, new)
    after = Census(chosen.pid, old - new)
    stayed = sum(after.nodes.get(node, 0) for node in old - new)
    moved = max(0, sum(before.nodes.get(node, 0) for node in old - new) - stayed)
    if chosen.json:
        print(
            json.dumps(_as_dict(chosen.pid, (old, new), (before, after), (moved, stayed, refused)), indent=2)
        )
    else:
        print(_text((old, new), (before, after), (moved, stayed)))
    return 1 if stayed else 0


def why(mapped: MappedRange) -> str:
    """Why the pages of *mapped* may have stayed, as far as its line tells."""
    from zerosys.refusal import may_move_all

    sharers = mapped.counts.get("mapmax", 1)
    if sharers > 1 and not may_move_all():
        return f"mapped {sharers} times: that takes CAP_SYS_NICE"
    if mapped.counts.get("writeback"):
        return "being written to its file: try again"
    return "held at that moment, locked by I/O, or no room on TO: try again, or see zerosys hardware"


def _as_dict(
    pid: int,
    sets: tuple[frozenset[int], frozenset[int]],
    censuses: tuple[Census, Census],
    sums: tuple[int, int, int],
) -> dict[str, object]:
    (old, new), (before, after), (moved, stayed, refused) = sets, censuses, sums
    return {
        "pid": pid,
        "from": sorted(old),
        "to": sorted(new),
        "before": {str(node): size for node, size in sorted(before.nodes.items())},
        "after": {str(node): size for node, size in sorted(after.nodes.items())},
        "moved": moved,
        "stayed": stayed,
        "not_moved_pages": refused,
        "left": [
            {
                "address": f"{one.address:#x}",
                "kind": "anonymous" if one.use == "other" else one.use,
                "file": one.file,
                "bytes": on(one, old - new),
                "why": why(one),
            }
            for one in after.left
        ],
    }


def _text(
    sets: tuple[frozenset[int], frozenset[int]], censuses: tuple[Census, Census], sums: tuple[int, int]
) -> str:
    from zerosys.cli.stat.report import mib, named

    (old, new), (before, after), (moved, stayed) = sets, censuses, sums
    nodes = sorted({*before.nodes, *after.nodes, *old, *new})
    rows = [(str(node), mib(before.nodes.get(node, 0)), mib(after.nodes.get(node, 0))) for node in nodes]
    lines = [
        table(("NODE", "BEFORE", "AFTER"), rows, right="NODE BEFORE AFTER") + "   (MiB)",
        f"moved {mib(moved)} MiB, stayed {mib(stayed)} MiB",
    ]
    for one in after.left:
        size, what = mib(on(one, old - new)), named((one.use, plain(one.file or "")))
        lines.append(f"  {size} MiB at {one.address:#x} {what}: {why(one)}")
    return "\n".join(lines)
