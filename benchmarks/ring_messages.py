"""Messages of 64 B and 4 KiB from one process to another: how many a second, one by one and in batches?

Every message arrives, in order, and the sum over all is checked; a rival that drops some is marked, and is no
bar. "best rival" is the fastest on PyPI that lost nothing in the same round.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks import ring_rig as rig
from benchmarks.common import Bar, Row, compile_c, main
from benchmarks.ring_peers import Peer, Subetha, Zerosys, ZerosysRecords, present

SMALL, LARGE, BATCH, DEPTH = 64, 4096, 32, 4096
SINGLE = ["subetha", "cloudtoid", "membridge", "kickmsg", "iceoryx2", "shared_memory by hand"]


def one_by_one(
    kinds: dict[str, type[Peer]], size: int, count: int, c: Callable[[], float]
) -> tuple[list[Row], list[Row]]:
    """Rows of every peer, ours and C; and those that a best rival is chosen from."""
    label = f"{size} B" if size < 1024 else f"{size >> 10} KiB"
    depth = DEPTH if size == SMALL else 256
    rivals: list[Row] = [
        rig.Delivering(f"{name} {label}", lambda kind=kind: rig.rate(lambda: kind(size, depth), count))  # type: ignore[misc]
        for name, kind in kinds.items()
        if size <= kind.largest
    ]
    ours = Row(f"zerosys {label}", lambda: rig.rate(lambda: Zerosys(size, depth), count)[0])
    return [Row(f"C {label}", c), ours, *rivals], rivals


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    built, kinds = compile_c("ring"), present(SINGLE)
    count, large = (2000, 500) if quick else (300_000, 30_000)
    c_count = count if quick else 3_000_000
    small_rows, small_rivals = one_by_one(
        kinds, SMALL, count, lambda: rig.c_ring(built, "messages", SMALL, 1, c_count)[0]
    )
    large_rows, _ = one_by_one(kinds, LARGE, large, lambda: rig.c_ring(built, "messages", LARGE, 1, large)[0])
    published = [row for row in small_rivals if "by hand" not in row.name]
    rows = [*small_rows, *large_rows]
    if published:
        rows.insert(len(small_rows), rig.Best("best rival 64 B", published, max))
    rows.append(
        Row("C batches of 32", lambda: rig.c_ring(built, "messages", SMALL, BATCH, c_count // 32 * 32)[0])
    )
    rows.append(
        Row(
            "zerosys batches of 32",
            lambda: rig.rate(lambda: Zerosys(SMALL, DEPTH), count // 32 * 32, BATCH)[0],
        )
    )
    rows.append(
        Row("zerosys array of records", lambda: rig.records(ZerosysRecords(SMALL, DEPTH), c_count // 32 * 32))
    )
    bars = [
        Bar("zerosys 64 B", "C 64 B", 0.15, at_least=True),
        Bar("zerosys array of records", "C batches of 32", 0.7, at_least=True),
        Bar("zerosys 4 KiB", "C 4 KiB", 0.9, at_least=True),
    ]
    if published:
        bars.insert(0, Bar("zerosys 64 B", "best rival 64 B", 2.0, at_least=True))
    if "iceoryx2" in kinds:
        bars.append(Bar("zerosys 64 B", "iceoryx2 64 B", 25, at_least=True))
    if "cloudtoid" in kinds:
        bars.append(Bar("zerosys 4 KiB", "cloudtoid 4 KiB", 1.0, at_least=True))
    if "subetha" in kinds:
        rows.append(
            Row(
                "subetha batches of 32",
                lambda: rig.rate(lambda: Subetha(SMALL, DEPTH), count // 32 * 32, BATCH)[0],
            )
        )
        bars.append(Bar("zerosys batches of 32", "subetha batches of 32", 2.5, at_least=True))
    yield rows, bars
    rig.say_what_was_lost(rows)


if __name__ == "__main__":
    main("ring_messages", "messages a second", build)
