"""``zerosys-migratepages``: migratepages's options, output and exit status; its messages say why."""

from __future__ import annotations

import sys

from zerosys.cli.c_numbers import strtoul
from zerosys.cli.gnu import Option, Usage, described, parse
from zerosys.cli.nodeset import numactl_set

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Set

OPTIONS = (Option("h", "help", help="tell how it is called"),)
USAGE = """usage: migratepages pid from-nodes to-nodes

nodes is a comma delimited list of node numbers or A-B ranges or all."""
EXAMPLES = """examples:
  zerosys-migratepages 4711 0 1        what process 4711 has on node 0 goes to node 1
  zerosys-migratepages 4711 all 2-3    all of it, the n-th node's to the n-th, round and round

zerosys migrate does the same and tells what moved and what stayed.

exit status:
  0    the kernel moved what it could
  1    wrong usage, or the kernel refused; stderr says why
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The tool's arguments."""
    about = "Move the pages of a process from some nodes to others."
    return described(prog, about, OPTIONS, "PID FROM TO", EXAMPLES)


def main(argv: list[str], prog: str) -> int:
    """Behave as migratepages does; return its exit status."""
    words = []
    try:
        for letter, value in parse(argv, OPTIONS):
            if letter:
                return _usage()
            words.append(value or "")
    except Usage as wrong:
        print(f"{prog}: {wrong}", file=sys.stderr)
        return _usage()
    if len(words) != 3:
        return _usage()
    pid, rest = strtoul(words[0])
    if rest or not words[0]:
        return _usage()
    sets = []
    for text in words[1:]:
        nodes = _nodes(text, prog)
        if nodes is None:
            return 1
        sets.append(nodes)
    return _move(pid, sets[0], sets[1], prog)


def _usage() -> int:
    print(USAGE, file=sys.stderr)
    return 1


def _nodes(text: str, prog: str) -> Set[int] | None:
    try:
        return numactl_set(text)
    except (ValueError, OSError) as wrong:
        print(f"<{text}> is invalid")
        print(f"{prog}: {wrong.strerror if isinstance(wrong, OSError) else wrong}", file=sys.stderr)
        return None


def _move(pid: int, old: Set[int], new: Set[int], prog: str) -> int:
    from zerosys.migration import migrate

    if not new:
        print(f"{prog}: migrate_pages: no node to go to", file=sys.stderr)
        return 1
    try:
        # The original asks the kernel even to move nothing, which tells whether it may.
        migrate(pid, old or new, new)
    except OSError as refusal:
        print(f"{prog}: {refusal.strerror}", file=sys.stderr)
        return 1
    return 0
