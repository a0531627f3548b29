"""A message there and back between two busy processes: 64 B, 4 KiB, and 1 MiB looked at in its place.

Each message is checked when it comes back. p50 and p99 in nanoseconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import ring_rig as rig
from benchmarks.common import Bar, Row, compile_c, main
from benchmarks.ring_peers import Zerosys, ZerosysBlocks, present

PIPY = ["subetha", "cloudtoid", "membridge", "kickmsg"]
MIB = 1 << 20


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    built, kinds = compile_c("ring"), present([*PIPY, "iceoryx2", "shared_memory by hand"])
    count = 200 if quick else 20_000
    rows: list[Row] = []
    rivals: list[rig.Both] = []
    for size, label in ((64, "64 B"), (4096, "4 KiB")):
        rows += pair(f"C {label}", lambda size=size: rig.c_ring(built, "trips", size, count))
        rows += pair(
            f"zerosys {label}", lambda size=size: rig.trips(Zerosys(size, 64), Zerosys(size, 64), count)
        )
        for name, kind in kinds.items():
            if size <= kind.largest:
                made = pair(
                    f"{name} {label}",
                    lambda kind=kind, size=size: rig.trips(kind(size, 64), kind(size, 64), count),
                )
                rows += made
                rivals += made[:1] if size == 64 and name in PIPY else []
    blocks = min(count, 500)
    rows += pair("C 1 MiB", lambda: rig.c_ring(built, "trips", MIB, blocks))
    rows += pair(
        "zerosys 1 MiB in place",
        lambda: rig.block_trips(ZerosysBlocks(MIB, 2), ZerosysBlocks(MIB, 2), blocks),
    )
    for name in ("kickmsg", "iceoryx2", "shared_memory by hand"):
        if name in kinds:
            kind = kinds[name]
            rows += pair(
                f"{name} 1 MiB in place",
                lambda kind=kind: rig.block_trips(kind(MIB, 4), kind(MIB, 4), blocks),
            )
    best = rig.Best("best rival 64 B p50", rivals, min)
    bars = [
        Bar("zerosys 64 B p50", "C 64 B p50", 3.0),
        Bar("zerosys 4 KiB p50", "C 4 KiB p50", 2.0),
    ]
    if rivals:
        tail = rig.Best("best rival 64 B p99", [row.second for row in rivals], min)
        rows += [best, tail]
        bars += [
            Bar("zerosys 64 B p50", best.name, 0.8),
            Bar("zerosys 64 B p99", tail.name, 0.9),
        ]
    if "kickmsg" in kinds:
        bars.append(Bar("zerosys 4 KiB p50", "kickmsg 4 KiB p50"))
    if "iceoryx2" in kinds:
        bars.append(Bar("zerosys 1 MiB in place p50", "iceoryx2 1 MiB in place p50"))
    yield rows, bars


def pair(name: str, run: rig.TwoFigures) -> list[rig.Both | Row]:
    both = rig.Both((f"{name} p50", f"{name} p99"), run)
    return [both, both.second]


if __name__ == "__main__":
    main("ring_latency", "ns there and back", build)
