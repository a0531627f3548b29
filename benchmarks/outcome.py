"""The kept outcomes as one page: every bar, what was reached, on which machine."""

import csv
from pathlib import Path

from benchmarks.common import RESULTS


def page(folder: Path = RESULTS) -> str:
    """Markdown over the CSV files in *folder*."""
    lines = [
        "# Outcomes",
        "",
        "Written by `python -m benchmarks`; ../README.md says how to read it. A figure is how much of",
        "its bar a row needs (for `>=`, reaches): the median of the rounds' ratios.",
        "",
    ]
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        facts = [f"{row['name']}: {row['median']}" for row in rows if row["kind"] == "machine"]
        lines += [f"## {path.stem}", "", "; ".join(facts), ""]
        lines += ["| row | bar | of the bar | |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {row['name']} | {row['bar']} | {row['median']} | {row['verdict']} |"
            for row in rows
            if row["kind"] == "bar"
        ]
        lines += ["", "| row | median | min .. max | unit |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {row['name']} | {row['median']} | {row['min']} .. {row['max']} | {row['unit']} |"
            for row in rows
            if row["kind"] == "row"
        ]
        lines.append("")
    return "\n".join(lines)
