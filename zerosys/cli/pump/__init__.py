"""``zerosys pump``: bytes from one place to others, without a copy where the kernel can."""

from __future__ import annotations

import argparse

from zerosys.cli.places import GRAMMAR
from zerosys.cli.usage import Help, Parser

EXITS = """exit status:
  0    all bytes are where they should be, or were told as missed (--on-slow drop)
  1    it would have had to copy (--strict), the time was over, or something else failed
  2    wrong usage
  3    IN failed, or ended before --count bytes
  4    an OUT failed
  130  ended by Ctrl-C
  141  nobody read the output: ended by SIGPIPE, as cat is
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = Parser(
        prog=prog,
        description="Carry bytes from IN to OUT without a copy where the kernel can, and tell how they went.",
        epilog=f"IN and OUT are each one of:\n\n{GRAMMAR}\n\n{EXITS}",
        formatter_class=Help,
    )
    made.add_argument("source", metavar="IN", help="where the bytes come from; - is standard input")
    made.add_argument(
        "sinks", metavar="OUT", nargs="*", default=[], help="where they go (default: standard output)"
    )
    made.add_argument("--count", metavar="SIZE", help="carry so many bytes, such as 4096 or 64MiB, no less")
    made.add_argument("--offset", metavar="SIZE", help="begin at this byte of IN, a file")
    made.add_argument("--rate", metavar="SIZE", help="carry at most so many bytes a second")
    made.add_argument(
        "--tee", action="store_true", help="to standard output too, beside every OUT, as tee does"
    )
    made.add_argument(
        "--append", action="store_true", help="write at the end of files, and keep what they have"
    )
    made.add_argument("--strict", action="store_true", help="fail rather than copy through user memory")
    made.add_argument(
        "--stable", action="store_true", help="copy where a later write to IN would still be seen behind OUT"
    )
    made.add_argument(
        "--pipe-size",
        metavar="SIZE",
        help="wish for private pipes of this size (default: 1MiB); of several OUT each has one, which is "
        "how far it can lag behind",
    )
    made.add_argument(
        "--on-slow",
        choices=("block", "drop"),
        default="block",
        help="whether an OUT that has no room sets the pace (the default), or misses whole units",
    )
    made.add_argument(
        "--unit", metavar="SIZE", help="with --on-slow drop: never part what so many bytes are (default: 1)"
    )
    made.add_argument(
        "--linger",
        type=float,
        metavar="SECONDS",
        help="with --on-slow drop: give up an OUT that takes nothing for so long after the end of IN "
        "(default: 5)",
    )
    made.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after so long")
    made.add_argument(
        "--stall-timeout", type=float, metavar="SECONDS", help="give up when nothing moves for so long"
    )
    made.add_argument(
        "--quiet", action="store_true", help="no progress, which only a terminal is shown anyway"
    )
    made.add_argument(
        "--json",
        action="store_true",
        help="tell how the bytes went as JSON, on standard output; on stderr where that is an OUT",
    )
    return made


def main(argv: list[str], prog: str) -> int:
    """Run the command; return its exit status."""
    arguments = parser(prog)
    chosen = arguments.parse_intermixed_args(argv)  # options may stand between IN and OUT
    from zerosys.cli.pump import carrying

    try:
        job = carrying.job(chosen)
    except ValueError as wrong:
        arguments.error(str(wrong))
    return carrying.carry(job, prog)
