"""The link between memory and a GPU: from each node, registered and not, by size."""

from __future__ import annotations

from typing import Any

from zerosys.cli.bench.measure import Measure, check, row, seconds
from zerosys.cuda import DevicePool, copy, memory_model, register
from zerosys.machine import topology
from zerosys.region import SharedRegion
from zerosys.sizes import show_size

_SIZES = (1 << 20, 16 << 20, 256 << 20)


def measures(rounds: int, sizes: tuple[int, ...] = _SIZES) -> list[Measure]:
    """GiB/s to device 0 from each node's memory; nothing where there is no device."""
    if not memory_model(0):
        return []
    machine, pool = topology(), DevicePool(0)
    rows = []
    for node in sorted(machine.allowed_nodes):
        for size in sizes:
            with (
                SharedRegion.create(size, node=node if machine.available else None) as region,
                pool.acquire(size) as block,
            ):
                words = region.array("u8", (-1,))
                words[:] = range(len(words)) if len(words) < 1 << 20 else 7
                plain = [_once(region, block, size) for _ in range(rounds)]
                with register(region, 0):
                    pinned = [_once(region, block, size) for _ in range(rounds)]
                sent = words.copy()
                words[:] = 0
                copy(region, block)
                check(bool((words == sent).all()), "copying to the device and back")
            label = f"node {node}, {show_size(size)}"
            rows += [row(f"{label}, registered", pinned), row(f"{label}, pageable", plain)]
    return [Measure("host to device 0", "GiB/s", True, tuple(rows))]


def _once(region: SharedRegion, block: Any, size: int) -> float:
    return size / seconds(lambda: copy(block, region)) / (1 << 30)
