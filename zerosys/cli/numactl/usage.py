"""The table of options as argparse has it, for those who ask for help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from zerosys.cli import gnu

SETS = """NODES is a list such as 0,2-5, or all. Instead of a number a node can be what it is next to:
netdev:NAME, ip:HOST, file:PATH, block:NAME, pci:ADDRESS, cuda:N, gpu:UUID. CPUS is such a
list of numbers. ! in front means all others, + counts within what may be used, and same
repeats the nodes before.
"""


def described(
    prog: str, options: Sequence[gnu.Option], description: str, epilog: str = ""
) -> argparse.ArgumentParser:
    """A parser that tells of *options*, and of the command behind them."""
    made = gnu.described(prog, description, options, "", f"{SETS}\n{epilog}")
    made.usage = "%(prog)s [OPTION]... COMMAND [ARGUMENT]..."
    made.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="what to run, and its arguments"
    )
    return made
