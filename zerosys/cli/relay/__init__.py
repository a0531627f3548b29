"""``zerosys relay``: two places joined, both ways, for one connection or as many as come."""

from __future__ import annotations

import argparse

from zerosys.cli.places import GRAMMAR
from zerosys.cli.usage import EXITS, Help, Parser


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = Parser(
        prog=prog,
        description="Join A and B, both ways, without a copy. Where A listens, each who connects gets a"
        " connection to B of its own, thousands at once, until Ctrl-C; else it is over when both ways"
        " have ended.",
        epilog=f"A and B are each one of these (of which files are none):\n\n{GRAMMAR}\n\n{EXITS}",
        formatter_class=Help,
    )
    made.add_argument("a", metavar="A", help="- is standard input and output")
    made.add_argument("b", metavar="B")
    made.add_argument("--once", action="store_true", help="end after the first connection")
    made.add_argument("--strict", action="store_true", help="fail rather than copy through user memory")
    made.add_argument("--timeout", type=float, metavar="SECONDS", help="end a connection after so long")
    made.add_argument(
        "--stall-timeout", type=float, metavar="SECONDS", help="end one in which nothing moves for so long"
    )
    made.add_argument(
        "--pipes", type=int, default=32, metavar="N", help="private pipes at most (default: 32)"
    )
    made.add_argument("--json", action="store_true", help="tell of each connection as a line of JSON")
    return made


def main(argv: list[str], prog: str) -> int:
    """Run the command; return its exit status."""
    arguments = parser(prog)
    chosen = arguments.parse_args(argv)
    from zerosys.cli.relay import joining

    try:
        plan = joining.plan(chosen, prog)
    except ValueError as wrong:
        arguments.error(str(wrong))
    return joining.join(plan)
