"""``zerosys top``: the memory of the nodes, their hits and misses, and the processes behind them, live."""

from __future__ import annotations

import argparse
import json
import math
import sys

from zerosys.cli.arguments import count
from zerosys.cli.usage import Help, Parser

EXAMPLES = """examples:
  zerosys top                       live, every 2 seconds, until q or Ctrl-C
  zerosys top -d 0.5 -p 5           twice a second, with the 5 largest processes
  zerosys top -n 3 | tee log        three times, as plain text
  zerosys top -n 1 --json           once, as JSON: a line each time (docs/schemas/top.json)

Hits and misses are pages since boot the first time, then pages per second. Memory is in MiB. On a
terminal q leaves, and any other key looks again at once; where the extra "term" is installed
(rich), it has colour.

exit status:
  0    left, or done
  2    wrong usage
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The command's arguments."""
    made = Parser(
        prog=prog,
        description="Watch the memory of each node, what was allocated there as wanted (hits) and as a"
        " second choice (misses), and where the largest processes have their memory.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    made.add_argument(
        "-n", "--iterations", type=count, metavar="N",
        help="how often (default: until it is left on a terminal, else once)",
    )  # fmt: skip
    made.add_argument(
        "-d", "--delay", type=_seconds, default=2.0, metavar="SECONDS",
        help="the time between two looks (default: %(default)s)",
    )  # fmt: skip
    made.add_argument(
        "-p", "--processes", type=count, default=10, metavar="N",
        help="how many processes, the largest first (default: %(default)s)",
    )  # fmt: skip
    made.add_argument("--json", action="store_true", help="print it as JSON, a line each time")
    made.add_argument("--plain", action="store_true", help="text below text, also on a terminal")
    return made


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.05 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no time from 0.05 to 86400 seconds")
    return seconds


def main(argv: list[str], prog: str) -> int:
    """Watch until it is left; return 0."""
    chosen = parser(prog).parse_args(argv)
    from zerosys.cli.top import view
    from zerosys.cli.top.sample import Sample
    from zerosys.cli.top.screen import Paper, Terminal

    live = sys.stdout.isatty() and not (chosen.json or chosen.plain)
    turns = chosen.iterations
    if turns is None and not sys.stdout.isatty():
        turns = 1
    before, done = None, 0
    try:
        with Terminal() if live else Paper() as screen:
            while turns is None or done < turns:
                sample = Sample(chosen.processes, before)
                screen.show(json.dumps(view.as_dict(sample)) if chosen.json else view.text(sample, screen))
                before, done = sample, done + 1
                if done != turns and not screen.wait(chosen.delay):
                    break
    except KeyboardInterrupt:
        pass  # the way to leave it
    return 0
