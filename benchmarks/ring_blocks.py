"""Blocks copied into a ring and summed in their place, by numpy: bytes a second, in three shapes.

Each block has its number in front, and its sum is checked. The last shape is a ring of 256 MiB with a queue
of 8 MiB at most (fill_limit), which walks pages that are still warm.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import ring_rig as rig
from benchmarks.common import Bar, Row, compile_c, main
from benchmarks.ring_peers import ZerosysBlocks, ZerosysShallow, present

KIB, MIB = 1 << 10, 1 << 20
SHAPES = {
    "64 KiB in 1 MiB": (64 * KIB, MIB),
    "1 MiB in 8 MiB": (MIB, 8 * MIB),
    "1 MiB in 256 MiB": (MIB, 256 * MIB),
}
SHALLOW = "1 MiB through 256 MiB, 8 MiB deep"


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    built, kinds = compile_c("ring"), present(["kickmsg", "iceoryx2", "shared_memory by hand"])
    rows: list[Row] = []
    bars: list[Bar] = []
    for label, (block, size) in SHAPES.items():
        count = 32 if quick else (512 * MIB if size <= 8 * MIB else 1024 * MIB) // block * 2
        if quick and size > 8 * MIB:
            continue
        depth = size // block
        rows.append(
            Row(f"C {label}", lambda b=block, s=size, n=count: rig.c_ring(built, "blocks", b, s, n)[0])  # type: ignore[misc]
        )
        rows.append(
            Row(
                f"zerosys {label}",
                lambda b=block, d=depth, n=count: rig.throughput(ZerosysBlocks(b, d), n)[0],  # type: ignore[misc]
            )
        )
        for name, kind in kinds.items():
            rows.append(
                rig.Delivering(
                    f"{name} {label}",
                    lambda k=kind, b=block, d=depth, n=count: rig.throughput(k(b, d), n),  # type: ignore[misc]
                )
            )
        bars.append(Bar(f"zerosys {label}", f"C {label}", 0.95, at_least=True))
        if "iceoryx2" in kinds and size <= 8 * MIB:
            bars.append(Bar(f"zerosys {label}", f"iceoryx2 {label}", 1.5, at_least=True))
    if not quick:
        rows.append(Row(f"zerosys {SHALLOW}", lambda: rig.throughput(ZerosysShallow(MIB, 256), 2048)[0]))
        if "iceoryx2" in kinds:
            bars.append(Bar(f"zerosys {SHALLOW}", "iceoryx2 1 MiB in 256 MiB", 0.9, at_least=True))
    yield rows, bars
    rig.say_what_was_lost(rows)


if __name__ == "__main__":
    main("ring_blocks", "bytes a second", build)
