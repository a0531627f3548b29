"""A message to a process that sleeps for it, and back; and what it costs to spin a little before sleeping.

The floor is a futex in C. Messages are checked. Queries (available, ended) are asked in a loop.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from multiprocessing.connection import Connection

from benchmarks import ring_rig as rig
from benchmarks.common import Bar, Row, compile_c, main
from benchmarks.ring_peers import Peer, Receive, Send, Zerosys
from zerosys import StreamRing

SIZE = 64


class Sleeping(Zerosys):
    """Ours, sleeping at once."""

    spin = 0.0

    def sender(self) -> Send:
        self.end = self.made.writer()
        return self.end.write

    def receiver(self) -> Receive:
        self.got = self.made.reader("oldest", spin=self.spin)
        return self.got.read


class Spinning(Sleeping):
    """Ours, looking for 20 microseconds before it sleeps."""

    spin = 20e-6


class Pipe(Peer):
    """multiprocessing.Pipe, which everybody has."""

    def __init__(self, size: int, depth: int) -> None:
        super().__init__(size, depth)
        self.ends: tuple[Connection, Connection] = rig.FORK.Pipe(duplex=False)

    def sender(self) -> Send:
        return lambda message: self.ends[1].send_bytes(message) or True

    def receiver(self) -> Receive:
        return self.ends[0].recv_bytes


def queries(what: str, count: int) -> float:
    """Nanoseconds of reading an attribute of a reader; the loop's own time taken off."""
    with StreamRing.create(4096, "u1") as ring, ring.reader("oldest") as reader, ring.writer() as writer:
        writer.write(bytes(100))
        assert reader.available == 100 and not reader.closed
        clock = time.perf_counter_ns
        asked = "; ".join([f"reader.{what}"] * 10)
        code = f"def loop(n):\n start = clock()\n for _ in repeat(None, n): {asked}\n return clock() - start"
        space = {"clock": clock, "repeat": repeat, "reader": reader}
        exec(code, space)
        taken: int = space["loop"](count // 10)  # type: ignore[operator]
    return taken / count


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    built, count = compile_c("ring"), 100 if quick else 10_000
    rows: list[Row] = []

    def trips(kind: type[Peer]) -> rig.TwoFigures:
        return lambda: rig.trips(kind(SIZE, 64), kind(SIZE, 64), count)

    runs: dict[str, rig.TwoFigures] = {
        "futex in C": lambda: rig.c_ring(built, "sleeps", count),
        "zerosys sleeping": trips(Sleeping),
        "multiprocessing.Pipe": trips(Pipe),
        "zerosys busy": trips(Zerosys),
        "zerosys spinning 20 us": trips(Spinning),
    }
    for name, run in runs.items():
        both = rig.Both((f"{name} p50", f"{name} p99"), run)
        rows += [both, both.second]
    for what in ("available", "closed"):
        rows.append(Row(f"{what}", lambda what=what: queries(what, 1000 if quick else 1_000_000)))  # type: ignore[misc]
    yield (
        rows,
        [
            Bar("zerosys sleeping p50", "futex in C p50", 1.15),
            Bar("zerosys sleeping p50", "multiprocessing.Pipe p50", 0.9),
            Bar("zerosys spinning 20 us p50", "zerosys busy p50", 1.3),
            Bar("available", None, plus=30),
            Bar("closed", None, plus=30),
        ],
    )


if __name__ == "__main__":
    main("ring_blocking", "ns", build)
