"""``zerosys stat``: where the memory of processes lies, by node, policy, page size and what is mapped."""

from __future__ import annotations

import argparse

from zerosys.cli.arguments import count, process
from zerosys.cli.usage import Help, Parser

EXAMPLES = """examples:
  zerosys stat 4711                 by node, policy, page size, and the 20 largest of what is mapped
  zerosys stat 4711 --largest 5     the 5 largest
  zerosys stat 4711 --each          every mapping, in the order of addresses
  zerosys stat self --json          this process, as JSON (docs/schemas/stat.json)

exit status:
  0    done
  1    a process could not be looked at; stderr says why
  2    wrong usage
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The command's arguments."""
    made = Parser(
        prog=prog,
        description="Tell where the memory of processes lies. The pages that several processes have mapped"
        " count in each of them. Looking makes no page and moves none.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    made.add_argument("pids", metavar="PID", nargs="+", type=process, help='a process\'s number, or "self"')
    made.add_argument("--json", action="store_true", help="print it as JSON")
    made.add_argument("--each", action="store_true", help="list every mapping instead")
    made.add_argument(
        "--largest",
        type=count,
        default=20,
        metavar="N",
        help="how many of what is mapped are listed one by one; 0 lists all (default: %(default)s)",
    )
    return made


def main(argv: list[str], prog: str) -> int:
    """Tell of each process; return the exit status."""
    chosen = parser(prog).parse_args(argv)
    from zerosys.cli.stat import each, report

    return each.show(chosen, prog) if chosen.each else report.show(chosen, prog)
