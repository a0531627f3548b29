"""When to map and when to copy: each byte once, and a small hot table that atomics meet in."""

from __future__ import annotations

from typing import Any

import cupy
import numpy

from benchmarks.common import Bar, Row
from benchmarks.cuda.question import GIB, Question, add_up, count, on_device, pattern, timed
from zerosys import SharedRegion, cuda

TABLE = 256


def build(quick: bool) -> Question:
    """Rows in seconds: the whole way of a stream, and of counting into a table."""
    size, counted = (GIB // 64, 1 << 14) if quick else (GIB, 1 << 20)
    words = pattern(size // 4, 2)
    data, table = SharedRegion.create(size), SharedRegion.create(TABLE * 4)
    held = [cuda.register(data), cuda.register(table)]
    data.array("u4")[:] = words
    total = int(words.sum(dtype="u8"))
    expected = numpy.bincount(words[:counted] % TABLE, minlength=TABLE)
    keys = cupy.asarray(words[:counted])
    pool = cuda.DevicePool()
    pool.warm_up(size)
    pool.warm_up(TABLE * 4)

    def once_mapped() -> float:
        found: list[int] = []

        def work() -> None:
            with cuda.DeviceView(data.array("u4"), "in", strict=True) as view:
                found.append(add_up(on_device(view, "u4", size // 4)))

        seconds = timed(work)
        assert found == [total]
        return seconds

    def once_copied() -> float:
        found: list[int] = []

        def work() -> None:
            with pool.acquire(size) as block:
                cuda.copy(block, data)
                found.append(add_up(on_device(block, "u4", size // 4)))

        seconds = timed(work)
        assert found == [total]
        return seconds

    def checked(work: Any) -> float:
        table.array("u4")[:] = 0
        seconds = timed(work)
        assert (table.array("u4") == expected).all(), "counted wrong"
        return seconds

    def atomics_mapped() -> None:
        with cuda.DeviceView(table, "inout", strict=True) as view:
            count(keys, on_device(view, "u4", TABLE))

    def atomics_copied() -> None:
        with pool.acquire(TABLE * 4) as block:
            cuda.copy(block, table)
            count(keys, on_device(block, "u4", TABLE))
            cuda.copy(table, block)

    def many_mapped() -> float:
        def work() -> None:
            with cuda.DeviceView(data.array("u4"), "in", strict=True) as view:
                mapped = on_device(view, "u4", size // 4)
                for _ in range(8):
                    assert add_up(mapped) == total

        return timed(work)

    def many_copied() -> float:
        def work() -> None:
            with pool.acquire(size) as block:
                cuda.copy(block, data)
                copied = on_device(block, "u4", size // 4)
                for _ in range(8):
                    assert add_up(copied) == total

        return timed(work)

    def close() -> None:
        pool.close()
        for thing in (*held, data, table):
            thing.__exit__(None, None, None)

    rows = [
        Row("each byte once, mapped", once_mapped),
        Row("each byte once, copied", once_copied),
        Row("each byte 8 times, mapped", many_mapped),
        Row("each byte 8 times, copied", many_copied),
        Row("atomics in a hot table, mapped", lambda: checked(atomics_mapped)),
        Row("atomics in a hot table, copied", lambda: checked(atomics_copied)),
    ]
    bars = [
        Bar("each byte once, mapped", "each byte once, copied", 1),
        Bar("each byte 8 times, copied", "each byte 8 times, mapped", 0.5),
        Bar("atomics in a hot table, copied", "atomics in a hot table, mapped", 0.5),
    ]
    asks = f"{size >> 20} MiB streamed; {counted} words counted into {TABLE} places"
    return Question("map_or_copy", asks, "s", rows, bars, 2, close)
