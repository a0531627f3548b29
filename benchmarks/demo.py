"""The main job, file -> pipe -> TCP -> region in another process: against read, sendall, recv and a queue?

Each round runs ``zerosys demo --json`` once over 256 MiB on loopback, which moves the bytes both ways and
checks them: every promise must have held, sha256 and checksums included. Processor seconds are those of all
processes together.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.common import HERE, Bar, Row, main

FIGURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "throughput, GB/s": lambda way: way["gb_per_s"],
    "processor time, s a GiB": lambda way: way["cpu_s_per_gib"]["all"],
}


def demo(size: str) -> dict[str, Any]:
    """One run of the demo: what each way cost."""
    command = [sys.executable, "-m", "zerosys", "demo", "--json", "--rounds", "1", "--size", size]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True)
    if done.returncode:
        raise AssertionError(f"the demo ended with status {done.returncode}: {done.stderr.decode()}")
    seen = json.loads(done.stdout)
    ways: dict[str, Any] = seen["ways"]
    return ways


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    ways: dict[str, Any] = {}

    def row(name: str, way: str, figure: Callable[[dict[str, Any]], float], runs: bool) -> Row:
        def measure() -> float:
            if runs:  # the first row of a round; the others are of the same run
                ways.update(demo("8MiB" if quick else "256MiB"))
            return figure(ways[way])

        return Row(name, measure)

    rows = [
        row(f"{way}: {what}", way, figure, runs=(way, what) == ("zerosys", next(iter(FIGURES))))
        for what, figure in FIGURES.items()
        for way in ("zerosys", "ordinary")
    ]
    throughput, processor = FIGURES
    yield (
        rows,
        [
            Bar(f"zerosys: {throughput}", f"ordinary: {throughput}", 1.2, at_least=True),
            Bar(f"zerosys: {processor}", f"ordinary: {processor}", 0.75),
        ],
    )


if __name__ == "__main__":
    main("demo", "as named", build)
