"""``zerosys demo``: the main job, our way beside the ordinary way, with its proof."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys

from zerosys.cli.usage import EXITS, Help, Parser


def parser(prog: str) -> argparse.ArgumentParser:
    """The command's arguments."""
    made = Parser(
        prog=prog,
        description="Move FILE through a pipe and a TCP connection into shared memory on a NUMA node, where"
        " another process reads it as an array; beside it the same with read, sendall, recv and a queue."
        " Prints what each cost, and whether what zerosys promises held.",
        epilog=EXITS,
        formatter_class=Help,
    )
    made.add_argument(
        "file", nargs="?", metavar="FILE", help="what to move (default: an IQ stream made for it)"
    )
    made.add_argument("--size", default="256MiB", help="of the stream that is made (default: %(default)s)")
    made.add_argument(
        "--node", type=int, help="where the memory shall lie (default: the receiver's own node)"
    )
    made.add_argument(
        "--pages",
        default="auto",
        choices=("auto", "base", "thp", "2M", "1G"),
        help="the kind of pages (default: %(default)s)",
    )
    made.add_argument("--rounds", type=int, default=3, help="timed rounds of each way (default: %(default)s)")
    made.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        help="seconds until a step counts as hung (default: %(default)s)",
    )
    made.add_argument("--json", action="store_true", help="print everything that was seen as JSON")
    return made


def main(argv: list[str], prog: str) -> int:
    """Run the demo; return 0 if every promise held."""
    arguments = parser(prog)
    chosen = arguments.parse_args(argv)
    if chosen.rounds < 1:
        arguments.error(f"--rounds must be at least 1, not {chosen.rounds}")
    if not chosen.timeout > 0:
        arguments.error(f"--timeout must be more than 0, not {chosen.timeout}")
    try:
        size = _size(chosen.size)
    except ValueError as wrong:
        arguments.error(f"--size: {wrong}")
    if chosen.file is not None:
        _check(chosen.file)
    return _report(chosen, size)


def _size(text: str) -> int:
    from zerosys.sizes import parse_size

    return parse_size(text)


def _check(path: str) -> None:
    """Refuse at once what the sender could not go through twice."""
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode):
        raise ValueError(f"{path} is no regular file: every round reads it again from the start")
    with open(path, "rb"):
        pass


def _report(chosen: argparse.Namespace, size: int) -> int:
    from zerosys.cli.demo import contest, report

    if not chosen.json:
        print("zerosys demo: moving it both ways ...", file=sys.stderr)
    plan = contest.Plan(chosen.file, size, chosen.node, chosen.pages, chosen.rounds, chosen.timeout)
    seen = contest.run(plan)
    seen["ratios"] = report.ratios(seen)
    seen["promises"] = report.judge(seen)
    seen["ok"] = all(made["verdict"] != report.BROKEN for made in seen["promises"])
    print(json.dumps(seen, indent=2) if chosen.json else report.text(seen))
    return 0 if seen["ok"] else 1
