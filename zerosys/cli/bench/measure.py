"""What a measurement is: rows of one unit, each the median of rounds whose answer was checked."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One figure: the median over the rounds, the lowest and the highest."""

    label: str
    value: float
    low: float
    high: float


class Measure(NamedTuple):
    """The rows of one question. ``more_is_better`` says how two of them compare."""

    name: str
    unit: str
    more_is_better: bool
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """The measure for JSON."""
        return {**self._asdict(), "rows": [row._asdict() for row in self.rows]}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Measure:
        """The measure that to_dict() gave. Raises KeyError or TypeError for anything else."""
        rows = tuple(Row(**row) for row in told["rows"])
        return cls(told["name"], told["unit"], bool(told["more_is_better"]), rows)


class WrongAnswer(ValueError):
    """A measured piece of work did not do what it was measured for."""


def row(label: str, figures: list[float]) -> Row:
    """The row of *figures*, one a round."""
    return Row(label, statistics.median(figures), min(figures), max(figures))


def seconds(work: Callable[[], object]) -> float:
    """How long *work* takes, once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def check(right: bool, what: str) -> None:
    """Raise WrongAnswer unless *right*: a figure for work that went wrong is worth nothing."""
    if not right:
        raise WrongAnswer(f"{what}: the answer is wrong, so its time means nothing")
