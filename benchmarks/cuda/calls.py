"""What do the small things cost: a view of mapped memory, a hit in a pool?"""

from __future__ import annotations

import time
from collections.abc import Callable

import cupy
import torch

from benchmarks.common import Bar, Row
from benchmarks.cuda.question import Question
from zerosys import SharedRegion, cuda

SIZE = 1 << 20


def each(work: Callable[[int], float], times: int) -> Callable[[], float]:
    """Microseconds for one of *times*, which *work* does and times."""
    return lambda: work(times) / times * 1e6


def loop(body: Callable[[], object]) -> Callable[[int], float]:
    def work(times: int) -> float:
        begin = time.perf_counter()
        for _ in range(times):
            body()
        return time.perf_counter() - begin

    return work


def build(quick: bool) -> Question:
    """Rows in microseconds."""
    times = 100 if quick else 5000
    region = SharedRegion.create(SIZE)
    registration = cuda.register(region)
    array = region.array("f4")
    host, device = cuda.HostPool(), cuda.DevicePool()
    host.warm_up(SIZE)
    device.warm_up(SIZE)

    def make_views(count: int) -> float:
        views = []
        begin = time.perf_counter()
        for _ in range(count):
            views.append(cuda.DeviceView(array))
        seconds = time.perf_counter() - begin
        for view in views:
            assert not view.staged and view.pointer == registration.device_pointer()
            view.commit()
        return seconds

    def close() -> None:
        nonlocal array
        array = None  # type: ignore[assignment]
        for held in (registration, region, host, device):
            held.__exit__(None, None, None)

    def torch_host() -> None:
        torch.empty(SIZE, dtype=torch.uint8, pin_memory=True)

    def torch_device() -> None:
        torch.empty(SIZE, dtype=torch.uint8, device="cuda")

    rows = [
        Row("DeviceView on a mapped pointer", each(make_views, times)),
        Row("DeviceView, made and committed", each(loop(lambda: cuda.DeviceView(array).commit()), times)),
        Row("HostPool hit, there and back", each(loop(lambda: host.acquire(SIZE).release()), times)),
        Row("torch's host allocator", each(loop(torch_host), times)),
        Row("CuPy's pinned pool", each(loop(lambda: cupy.cuda.alloc_pinned_memory(SIZE)), times)),
        Row("DevicePool hit, there and back", each(loop(lambda: device.acquire(SIZE).release()), times)),
        Row("torch's device allocator", each(loop(torch_device), times)),
        Row("CuPy's device pool", each(loop(lambda: cupy.cuda.alloc(SIZE)), times)),
    ]
    bars = [
        Bar("DeviceView on a mapped pointer", None, plus=3),
        Bar("HostPool hit, there and back", None, plus=1.4),
        Bar("HostPool hit, there and back", "torch's host allocator", 0.6),
        Bar("HostPool hit, there and back", "CuPy's pinned pool", 1),
        Bar("DevicePool hit, there and back", None, plus=1.4),
        Bar("DevicePool hit, there and back", "CuPy's device pool", 1),
    ]
    return Question("calls", "one call", "us", rows, bars, 5, close)
