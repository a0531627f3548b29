"""Measures as text for a terminal, as JSON, and two saved runs side by side."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from zerosys.cli.bench.measure import Measure
from zerosys.cli.table import table

SCHEMA = 1


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "kernel": platform.release(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
    }


def figure(value: float) -> str:
    """*value* to three digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def text(measures: list[Measure]) -> str:
    """Each measure as a table."""
    parts = []
    for measure in measures:
        rows = [[r.label, figure(r.value), figure(r.low), figure(r.high)] for r in measure.rows]
        head = [measure.name, measure.unit, "lowest", "highest"]
        parts.append(table(head, rows, right=f"{measure.unit} lowest highest"))
    return "\n\n".join(parts)


def to_json(measures: list[Measure]) -> str:
    """The measures with the machine, as docs/schemas/bench.json describes."""
    told = {"schema": SCHEMA, "machine": machine(), "measures": [m.to_dict() for m in measures]}
    return json.dumps(told, indent=2)


def load(path: str) -> list[Measure]:
    """The measures of a saved run. Raises ValueError for a file that is none."""
    try:
        told = json.loads(Path(path).read_text())
        if told["schema"] != SCHEMA:
            raise ValueError(f"{path}: schema {told['schema']}, and this zerosys reads {SCHEMA}")
        return [Measure.from_dict(measure) for measure in told["measures"]]
    except (KeyError, TypeError, json.JSONDecodeError) as wrong:
        raise ValueError(f"{path} is no saved run: make one with zerosys bench --json > {path}") from wrong


def compare(before: list[Measure], after: list[Measure]) -> str:
    """Each row that both runs have, and how many times as good the second is."""
    old = {(m.name, r.label): r for m in before for r in m.rows}
    rows = []
    for measure in after:
        for now in measure.rows:
            then = old.get((measure.name, now.label))
            if then is None or not then.value or not now.value:
                continue
            better = now.value / then.value if measure.more_is_better else then.value / now.value
            label = f"{measure.name}: {now.label}"
            rows.append([label, measure.unit, figure(then.value), figure(now.value), f"{better:.2f}x"])
    if not rows:
        return "the two runs have no row in common"
    return table(["row", "unit", "first", "second", "better"], rows, right="first second better")
