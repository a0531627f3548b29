"""What a region costs to make, by the kind of its pages, beside the standard library's shared memory."""

from __future__ import annotations

import mmap
from multiprocessing.shared_memory import SharedMemory

from zerosys.backing import PAGES
from zerosys.cli.bench.measure import Measure, Row, check, row, seconds
from zerosys.region import SharedRegion

_SIZE = 64 << 20


def measures(rounds: int, size: int = _SIZE) -> list[Measure]:
    """Milliseconds for making a region, populated and looked up; pages that cannot be had are left out."""
    rows = []
    for pages in PAGES:
        made = _region(pages, rounds, size)
        if made:
            rows.append(made)
    rows.append(
        row("multiprocessing.shared_memory, each page touched", [_shared(size) for _ in range(rounds)])
    )
    return [Measure(f"making {size >> 20} MiB of shared memory", "ms", False, tuple(rows))]


def _region(pages: str, rounds: int, size: int) -> Row | None:
    figures = []
    for _ in range(rounds):
        held: list[SharedRegion] = []
        try:
            took = seconds(lambda into=held: into.append(SharedRegion.create(size, pages=pages)))  # type: ignore[misc]
        except OSError:
            return None  # this machine has no such pages, or none free
        with held[0] as region:
            check(bytes(memoryview(region)[-1:]) == b"\0", "making a region")
        figures.append(took * 1e3)
    return row(f"SharedRegion, pages={pages!r}", figures)


def _shared(size: int) -> float:
    held: list[SharedMemory] = []

    def make() -> None:
        memory = SharedMemory(create=True, size=size)
        held.append(memory)
        buffer = memory.buf
        assert buffer is not None
        buffer[:: mmap.PAGESIZE] = bytes(len(range(0, memory.size, mmap.PAGESIZE)))

    try:
        return seconds(make) * 1e3
    finally:
        for memory in held:
            memory.close()
            memory.unlink()
