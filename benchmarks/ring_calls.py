"""What does one call on a ring cost, both ends in one thread, so that nothing waits?

Figures are nanoseconds a call, those of an empty loop taken off. The bars are those of what a busy
loop asks again and again: `available` and `closed`.
"""

import timeit
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np

from benchmarks.common import Bar, Built, Row, main
from zerosys import MessageRing, StreamRing

SMALL = b"x" * 64
BATCH = 32
CALLS = 500
QUERY = 30.0
# What is run, on a full ring or an empty one, and the messages that it carries.
STATEMENTS = {
    "message: write": ("w.write(m)", False, 1),
    "message: read": ("r.read()", True, 1),
    "message: write_many, each of 32": ("w.write_many(many)", False, BATCH),
    "message: read_many, each of 32": ("r.read_many(32)", True, BATCH),
    "message: peek and release": ("r.peek().release()", True, 1),
    "record: write of an array, each of 32": ("iw.write(records)", False, BATCH),
    "record: read_into an array, each of 32": ("ir.read_into(records)", True, BATCH),
    "record: claim and commit": ("iw.claim(1).commit()", False, 1),
    "record: peek and release": ("ir.peek(1).release()", True, 1),
    "record: claim an array and commit": ("c = iw.claim(1); c.array; c.commit()", False, 1),
    "record: peek at an array and release": ("p = ir.peek(1); p.array; p.release()", True, 1),
    "query: items available": ("ir.available", True, 1),
    "query: messages available": ("r.available", True, 1),
    "query: messages available, none": ("r.available", False, 1),
    "query: closed": ("r.closed", False, 1),
}


def cost(statement: str, ready: Callable[[], object], things: dict[str, object], share: int) -> float:
    """Nanoseconds of *statement*, of which *share* messages are the work, after *ready* each time."""
    clock = timeit.Timer(statement, globals=things)
    loop = timeit.Timer("pass")
    best = min((ready(), clock.timeit(CALLS // share))[1] for _ in range(20))
    idle = min(loop.timeit(CALLS // share) for _ in range(20))
    return (best - idle) / (CALLS // share * share) * 1e9


@contextmanager
def build(quick: bool) -> Iterator[Built]:
    with ExitStack() as stack:
        messages, items = (
            stack.enter_context(ring)
            for ring in (MessageRing.create("1MiB"), StreamRing.create("1MiB", "V64"))
        )
        w, iw = stack.enter_context(messages.writer()), stack.enter_context(items.writer())
        r, ir = stack.enter_context(messages.reader()), stack.enter_context(items.reader())
        records = np.zeros(BATCH, "V64")
        things = {"w": w, "r": r, "iw": iw, "ir": ir, "m": SMALL, "many": [SMALL] * BATCH, "records": records}

        def drain() -> None:
            r.skip()
            ir.skip()

        def fill() -> None:
            drain()
            for _ in range(CALLS // BATCH + 1):
                w.write_many([SMALL] * BATCH)
                iw.write(records)
            assert r.available == ir.available == (CALLS // BATCH + 1) * BATCH

        rows = [
            Row(name, partial(cost, statement, fill if full else drain, things, share))
            for name, (statement, full, share) in STATEMENTS.items()
        ]
        yield rows, [Bar(row.name, None, plus=QUERY) for row in rows if row.name.startswith("query")]


if __name__ == "__main__":
    main("ring_calls", "ns a call or message", build, slices=10)
