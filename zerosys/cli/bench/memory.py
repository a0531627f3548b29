"""Memory bandwidth from the CPUs of each node to the memory of each node."""

from __future__ import annotations

from collections.abc import Callable

from zerosys.affinity import run_on
from zerosys.cli.bench.measure import Measure, check, row, seconds
from zerosys.machine import topology
from zerosys.region import SharedRegion

_SIZE = 64 << 20  # more than the caches of most nodes


def measures(rounds: int, size: int = _SIZE) -> list[Measure]:
    """Reading and writing, in GiB/s, for each pair of nodes that this process may use."""
    machine = topology()
    running = [n for n in sorted(machine.nodes) if machine.nodes[n].online_cpus & machine.allowed_cpus]
    reading, writing = [], []
    for memory in sorted(machine.allowed_nodes):
        with SharedRegion.create(size, node=memory if machine.available else None) as region:
            for cpus in running:
                label = f"CPUs of node {cpus}, memory of node {memory}"
                with run_on(cpus):
                    read, written = _figures(region, rounds)
                reading.append(row(label, read))
                writing.append(row(label, written))
    return [
        Measure("memory read by node pair", "GiB/s", True, tuple(reading)),
        Measure("memory written by node pair", "GiB/s", True, tuple(writing)),
    ]


def _figures(region: SharedRegion, rounds: int) -> tuple[list[float], list[float]]:
    words = region.array("u8", (-1,))
    gib = words.nbytes / (1 << 30)

    def timed(work: Callable[[], object]) -> float:
        return gib / seconds(work)

    read, written = [], []
    for round in range(1, rounds + 1):
        written.append(timed(lambda value=round: words.fill(value)))  # type: ignore[misc]
        sums: list[int] = []
        read.append(timed(lambda into=sums: into.append(int(words.sum()))))  # type: ignore[misc]
        check(sums == [round * len(words)], "reading memory")
    return read, written
