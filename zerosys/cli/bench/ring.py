"""The time a message takes to another process and back, through two rings: as a histogram in steps."""

from __future__ import annotations

import multiprocessing
import time
from typing import TYPE_CHECKING

from zerosys.cli.bench.measure import Measure, Row, check
from zerosys.ring import MessageRing

if TYPE_CHECKING:
    from zerosys.ring.ends import MessageReader, MessageWriter

_TRIPS = 20_000
_SIZES = (64, 4096)
_STEPS = (0.5, 0.9, 0.99, 0.999)


def measures(rounds: int, trips: int = _TRIPS) -> list[Measure]:
    """Microseconds of a round trip by message size, each side spinning: median and slow ends."""
    return [_round_trips(size, rounds, trips) for size in _SIZES]


def _round_trips(size: int, rounds: int, trips: int) -> Measure:
    taken: list[list[float]] = []
    with MessageRing.create("1MiB") as forth, MessageRing.create("1MiB") as back:
        other = multiprocessing.get_context("spawn").Process(target=_echo, args=(forth, back), daemon=True)
        other.start()
        try:
            with forth.writer(spin=1.0) as writer, back.reader(spin=1.0) as reader:
                _trips(writer, reader, bytes(size), 100)  # the other side is up by then
                for _ in range(rounds):
                    taken.append(sorted(_trips(writer, reader, bytes(size), trips)))
                writer.close()
            other.join(10)
        finally:
            other.kill()
    rows = []
    for step in _STEPS:
        figures = sorted(times[int(step * (len(times) - 1))] * 1e6 for times in taken)
        name = "median" if step == 0.5 else f"{step * 100:g} % are faster"
        rows.append(Row(name, figures[len(figures) // 2], figures[0], figures[-1]))
    return Measure(f"ring round trip, {size} bytes", "us", False, tuple(rows))


def _trips(writer: MessageWriter, reader: MessageReader, message: bytes, count: int) -> list[float]:
    clock, times = time.perf_counter, []
    for n in range(count):
        begin = clock()
        writer.write(message, 10)
        answer = reader.read(10)
        times.append(clock() - begin)
        check(answer == message, f"round trip {n}")
    return times


def _echo(forth: MessageRing, back: MessageRing) -> None:
    with forth.reader(spin=1.0) as reader, back.writer(spin=1.0) as writer:
        for message in reader:
            writer.write(message)
