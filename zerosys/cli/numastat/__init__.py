"""``zerosys-numastat``: numastat's options, output and exit status (differences: docs/numastat.md)."""

from __future__ import annotations

import io
import os
import sys

from zerosys.cli.gnu import Option, Usage, described, parse
from zerosys.cli.numastat import processes, system
from zerosys.cli.numastat.table import terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from zerosys.cli.numastat.table import Table

OPTIONS = (
    Option("c", "", help="to minimize column widths"),
    Option("m", "", help="to show meminfo-like system-wide memory usage"),
    Option("n", "", help="to show the numastat statistics info"),
    Option("p", "", "<PID>|<pattern>", help="to show process info"),
    Option("s", "", "<node>", optional=True, help="to sort data by total column or <node>"),
    Option("v", "", help="to make some reports more verbose"),
    Option("V", "", help="to show the %s code version"),
    Option("z", "", help="to skip rows and columns of zeros"),
    Option("?", "help"),
)
# The revision of the original that this one follows, in its words.
VERSION = "20130723: Dec 26 2022"
EXAMPLES = """examples:
  zerosys-numastat                     the six counters of each node, in pages
  zerosys-numastat -czmn               meminfo and counters in megabytes, dense, without zeros
  zerosys-numastat -s1 -p python       processes with python in their command line, most on node 1 first
  watch -n1 zerosys-numastat           once a second

exit status:
  0    done, even where a process could not be read
  1    wrong usage, or the kernel does not tell of nodes
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The tool's arguments."""
    about = "Show memory by node: the machine's, or that of processes."
    return described(prog, about, OPTIONS, "PID|PATTERN", EXAMPLES)


def main(argv: list[str], prog: str) -> int:
    """Behave as numastat does; return its exit status."""
    # Columns are counted and cut in bytes, of which a name may have any.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="latin-1")
    given: dict[str, str | None] = {}
    words: list[str] = []
    try:
        for letter, value in parse(argv, OPTIONS):
            if letter == "V":
                print(f"{prog} version: {VERSION}")
                return 0
            if letter == "?":
                return _usage(prog)
            if letter in ("p", ""):
                words.append(os.fsencode(value or "").decode("latin-1"))
            else:
                given[letter] = value
    except Usage as wrong:
        print(f"{prog}: {wrong}", file=sys.stderr)
        return _usage(prog)
    try:
        return _show(given, words) if argv else _show_pages()
    except OSError as refusal:
        if not refusal.filename:
            raise
        print(f"cannot open {refusal.filename}: {refusal.strerror}", file=sys.stderr)
        return 1


def _usage(prog: str) -> int:
    print(
        f"Usage: {prog} [-c] [-m] [-n] [-p <PID>|<pattern>] [-s[<node>]] [-v] [-V] [-z]"
        " [ <PID>|<pattern>... ]",
        file=sys.stderr,
    )
    for option in OPTIONS[:-1]:
        argument = f"[{option.argument}]" if option.optional else f" {option.argument}".rstrip()
        print(f"-{option.short}{argument} {option.help.replace('%s', prog)}", file=sys.stderr)
    return 1


def _show_pages() -> int:
    nodes = system.node_numbers()
    if not nodes:
        return _no_nodes("sysfs not mounted or system not NUMA aware")
    table, unknown = system.pages(nodes)
    print("".join(unknown), end="")
    print(table.text(decimals=0, width=terminal_width()), end="")
    return 0


def _no_nodes(complaint: str) -> int:
    print(f"{complaint}: {system.NODES} lists no node", file=sys.stderr)
    return 1


def _show(given: dict[str, str | None], words: list[str]) -> int:
    pids = processes.wanted(words)
    nodes = system.node_numbers()
    if not nodes:
        return _no_nodes(f"Couldn't open {system.NODES}")
    show = Printer(given, nodes)
    if pids and ("v" in given or len(pids) == 1):
        table = processes.kinds(nodes)
        for pid in pids:
            print(f"\nPer-node process memory usage (in MBs) for PID {processes.label(pid)}")
            if processes.detail(table, pid, nodes):
                show(table)
    elif pids:
        print("\nPer-node process memory usage (in MBs)")
        show(processes.summed(pids, nodes))
    if "m" in given:
        print("\nPer-node system memory usage (in MBs):")
        show(*system.meminfo(nodes))
    if "n" in given or not ("m" in given or pids):
        print("\nPer-node numastat info (in MBs):")
        show(*system.megabytes(nodes))
    return 0


class Printer:
    """Prints tables as the options have it."""

    def __init__(self, given: dict[str, str | None], nodes: list[int]) -> None:
        node = given.get("s") or ""
        # A node that is none sorts by the total, the last column.
        self.column = nodes.index(int(node)) if node.isdecimal() and int(node) in nodes else -1
        self.sorted = "s" in given
        self.compact, self.skip_zeros = "c" in given, "z" in given
        self.width = terminal_width()

    def __call__(self, table: Table | None, unknown: Sequence[str] = ()) -> None:
        """Print *table*, where there is one, below a line for each name that it has no row for."""
        print("".join(unknown), end="")
        if table is None:
            return
        if self.sorted:
            table.sort(self.column)
        text = table.text(
            compact=self.compact,
            skip_zeros=self.skip_zeros,
            decimals=0 if self.compact else 2,
            width=self.width,
        )
        print(text, end="")
