"""What every benchmark shares: interleaved rounds, bars, C rivals, CSV."""

import argparse
import csv
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine import Quiet, machine

HERE = Path(__file__).parent
RESULTS = HERE / "results"
TOLERANCE = 1.05  # a bar is met within 5 %


@dataclass
class Row:
    """One way of doing the job; ``measure`` does it once, checks the answer and gives the figure."""

    name: str
    measure: Callable[[], float]
    figures: list[float] = field(default_factory=list)  # one a round

    def median(self) -> float:
        return statistics.median(self.figures)


@dataclass
class Bar:
    """*row* against ``factor * rival + plus``, round by round; ``at_least`` turns it round.

    No *rival*: against *plus* alone.
    """

    row: str
    rival: str | None
    factor: float = 1.0
    plus: float = 0.0
    at_least: bool = False

    def margin(self, rows: dict[str, Row]) -> float:
        """The median over the rounds of figure / bar: 1 is on the bar."""
        mine = rows[self.row].figures
        theirs = rows[self.rival].figures if self.rival else [0.0] * len(mine)
        pairs = zip(mine, theirs, strict=True)
        return statistics.median(got / (self.factor * rival + self.plus) for got, rival in pairs)

    def verdict(self, rows: dict[str, Row]) -> str:
        margin = self.margin(rows)
        met = margin * TOLERANCE >= 1 if self.at_least else margin <= TOLERANCE
        return "met" if met else "missed"

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        if not self.rival:
            return f"{sign} {self.plus:g}"
        return f"{sign} {self.factor:g} x [{self.rival}]" + (f" + {self.plus:g}" if self.plus else "")


def questions() -> list[str]:
    """The benchmarks of this folder, by name."""
    helpers = ("common", "forked", "loops", "machine", "outcome", "ring_peers", "ring_rig")
    return sorted(path.stem for path in HERE.glob("[a-z]*.py") if path.stem not in helpers)


def run_rounds(rows: list[Row], rounds: int, slices: int, quiet: Quiet) -> None:
    """Fill every row's figures: a round goes *slices* times over all rows and keeps each row's best.

    The best of many short slices is what the thing costs when nothing interferes. The gate is before
    each round; before each row where a round takes long, being one slice.
    """
    for _ in range(rounds):
        taken: list[list[float]] = [[] for _ in rows]
        with quiet.watch() if slices > 1 else nullcontext():
            for _ in range(slices):
                for row, figures in zip(rows, taken, strict=True):
                    with quiet.watch() if slices == 1 else nullcontext():
                        figures.append(row.measure())
        quiet.end_round()
        for row, figures in zip(rows, taken, strict=True):
            row.figures.append(min(figures))


def compile_c(name: str, *options: str) -> Path:
    """Build ``c/NAME.c`` with cc -O2 into a file that ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="zerosys-bench-")
    _FOLDERS.append(folder)
    built = Path(folder.name, name)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run(
        [
            *compiler,
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            *options,
            HERE / "c" / f"{name}.c",
            "-o",
            built,
        ],
        check=True,
    )
    return built


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def c_library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(compile_c(name, "-shared", "-fPIC")))


def report(title: str, unit: str, rows: dict[str, Row], bars: list[Bar], quiet: Quiet) -> list[list[object]]:
    """Print rows and bars; give them back as the lines of a CSV file."""
    lines: list[list[object]] = []
    print(f"\n{title}: {unit}; others took {quiet}")
    for row in rows.values():
        spread = f"{min(row.figures):.4g}..{max(row.figures):.4g}"
        lines.append(
            [
                "row",
                row.name,
                f"{row.median():.5g}",
                f"{min(row.figures):.5g}",
                f"{max(row.figures):.5g}",
                unit,
                "",
                "",
            ]
        )
        print(f"  {row.name:<44} {row.median():>10.4g}  [{spread}]")
    for bar in bars:
        margin, verdict = bar.margin(rows), bar.verdict(rows)
        lines.append(["bar", bar.row, f"{margin:.4g}", "", "", "of the bar", str(bar), verdict])
        print(f"  {verdict:<6} {bar.row} {bar}: {margin:.2f} of the bar")
    return lines


Built = AbstractContextManager[tuple[list[Row], list[Bar]]]


def main(
    question: str,
    unit: str,
    build: Callable[[bool], Built],
    *,
    slices: int = 1,
    arguments: list[str] | None = None,
) -> dict[str, Row]:
    """Run one question from the command line and keep its outcome in ``results/``."""
    parser = argparse.ArgumentParser(description=f"Benchmark {question}.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round, no gate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--patience", type=float, default=20.0, help="seconds to wait for an idle machine each time"
    )
    parser.add_argument("--csv", type=Path, help="where the figures go (default: results/, not when --quick)")
    options = parser.parse_args(arguments)
    facts = machine()
    print("; ".join(f"{key} {value}" for key, value in facts.items()))
    quiet = Quiet(0 if options.quick else options.patience)
    with build(options.quick) as (rows, bars):
        run_rounds(rows, 1 if options.quick else options.rounds, 1 if options.quick else slices, quiet)
    table = {row.name: row for row in rows}
    lines = report(question, unit, table, bars, quiet)
    target = options.csv or (None if options.quick else RESULTS / f"{question}.csv")
    if target:
        with open(target, "w", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["kind", "name", "median", "min", "max", "unit", "bar", "verdict"])
            out.writerows([["machine", key, value, "", "", "", "", ""] for key, value in facts.items()])
            out.writerow(["machine", "taken by others", str(quiet), "", "", "", "", ""])
            out.writerows(lines)
    sys.stdout.flush()
    return table
