"""``zerosys bench``: what this machine does, in a minute, each answer checked."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from zerosys.cli.usage import EXITS, Help, Parser, meant

if TYPE_CHECKING:
    from zerosys.cli.bench.measure import Measure

# Each subject: the module whose measures(rounds) measures it, and what it tells.
SUBJECTS = {
    "memory": ("zerosys.cli.bench.memory", "memory bandwidth by pairs of nodes"),
    "moving": ("zerosys.cli.bench.moving", "moving against copying, by size"),
    "ring": ("zerosys.cli.bench.ring", "round trips through rings to another process"),
    "setup": ("zerosys.cli.bench.setup", "making regions, by the kind of their pages"),
    "gpu": ("zerosys.cli.bench.gpu", "copies to a GPU by node and size, where there is one"),
}


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments of the command."""
    listing = "\n".join(f"  {name:<8} {what}" for name, (_, what) in SUBJECTS.items())
    made = Parser(
        prog=prog,
        description="Measure this machine: the short form of zerosys's benchmarks. Each answer is checked.",
        epilog=f"subjects:\n{listing}\n\n{EXITS}",
        formatter_class=Help,
    )
    made.add_argument("subjects", metavar="SUBJECT", nargs="*", help="what to measure (default: all)")
    made.add_argument("--rounds", type=int, default=5, help="rounds of each (default: %(default)s)")
    made.add_argument("--json", action="store_true", help="print it as JSON, which --compare reads")
    made.add_argument("--plot", metavar="FILE", help="draw it too: .svg, .png or .pdf (needs matplotlib)")
    made.add_argument(
        "--compare", nargs=2, metavar=("FIRST", "SECOND"), help="measure nothing: compare two saved runs"
    )
    return made


def main(argv: list[str], prog: str) -> int:
    """Measure and print, or compare; return the exit status."""
    arguments = parser(prog)
    chosen = arguments.parse_args(argv)
    unknown = [subject for subject in chosen.subjects if subject not in SUBJECTS]
    if unknown:
        hint = meant(unknown[0], SUBJECTS) or f"there are: {', '.join(SUBJECTS)}"
        arguments.error(f"{unknown[0]!r} is no subject; {hint}")
    if chosen.rounds < 1:
        arguments.error(f"--rounds must be 1 or more, not {chosen.rounds}")
    from zerosys.cli.bench import report

    if chosen.compare:
        first, second = (report.load(path) for path in chosen.compare)
        print(report.compare(first, second))
        return 0
    measures = _measured(chosen.subjects or list(SUBJECTS), chosen.rounds, prog)
    print(report.to_json(measures) if chosen.json else report.text(measures))
    if chosen.plot:
        from zerosys.cli.bench.plots import draw

        draw(measures, chosen.plot)
    return 0


def _measured(subjects: list[str], rounds: int, prog: str) -> list[Measure]:
    measures: list[Measure] = []
    for subject in subjects:
        if sys.stderr.isatty():
            print(f"{prog}: {subject} ...", file=sys.stderr)
        measures += import_module(SUBJECTS[subject][0]).measures(rounds)
    return measures
