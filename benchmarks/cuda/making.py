"""What does registered memory cost to make: populated and pinned, by kind of page, against the allocators?"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from cuda.bindings import runtime

from benchmarks.common import Bar, Row
from benchmarks.cuda.question import GIB, Question
from zerosys import Mapping, SharedRegion, cuda, memfd_create

POOL = Path("/proc/sys/vm/nr_hugepages")


def make(size: int, pages: str) -> float:
    """Seconds to create, populate and register a region; what it shows is zeros."""
    begin = time.perf_counter()
    region = SharedRegion.create(size, pages=pages)
    made = cuda.register(region)
    seconds = time.perf_counter() - begin
    assert made.pinned == region.pinned == size and region.backing.pages == pages
    assert not region.array("u8")[:: 4096 // 8].any()
    made.close()
    region.close()
    return seconds


def torch_pinned(size: int) -> float:
    begin = time.perf_counter()
    tensor = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    seconds = time.perf_counter() - begin
    assert tensor.is_pinned()
    del tensor
    torch._C._host_emptyCache()  # else the next one is a hit in its cache
    return seconds


def host_alloc(size: int) -> float:
    begin = time.perf_counter()
    error, pointer = runtime.cudaHostAlloc(size, 0)
    seconds = time.perf_counter() - begin
    assert int(error) == 0
    assert int(runtime.cudaFreeHost(pointer)[0]) == 0
    return seconds


def build(quick: bool) -> Question:
    """Rows in seconds for 4 GiB."""
    size = GIB // 16 if quick else 4 * GIB
    huge = reserve(size)
    rows = [
        Row("region, base pages", lambda: make(size, "base")),
        Row("torch pin_memory", lambda: torch_pinned(size)),
        Row("cudaHostAlloc", lambda: host_alloc(size)),
        Row("region, transparent huge pages", lambda: make(size, "thp")),
    ]
    bars = [
        Bar("region, base pages", "torch pin_memory", 0.6),
        Bar("region, base pages", "cudaHostAlloc", 0.45),
        Bar("region, transparent huge pages", "torch pin_memory", 0.45),
        Bar("region, transparent huge pages", "cudaHostAlloc", 0.35),
    ]
    if huge:
        rows.append(Row("region, hugetlb pages", lambda: make(size, "2M")))
        bars += [
            Bar("region, hugetlb pages", "torch pin_memory", 0.45),
            Bar("region, hugetlb pages", "cudaHostAlloc", 0.35),
        ]
    return Question("making", f"{size >> 20} MiB, populated and registered", "s", rows, bars, 1, give_back)


def reserve(size: int) -> bool:
    """Put enough huge pages into the pool for a region of *size*; whether there are as many."""
    wanted = size // (2 << 20) + 8
    try:
        POOL.write_text(str(wanted))
    except OSError as refusal:
        print(f"no pool of huge pages: {refusal}")
    got = int(POOL.read_text())
    print(f"huge pages in the pool: {got} of {wanted}")
    return got >= wanted


def give_back() -> None:
    try:
        POOL.write_text("0")
    except OSError as refusal:
        print(f"the pool stays: {refusal}")


def build_threads(quick: bool) -> Question:
    """Populating alone, by number of threads: which number create() should take."""
    size = GIB // 16 if quick else 4 * GIB

    def populate(threads: int) -> float:
        fd = memfd_create("threads")
        try:
            os.ftruncate(fd, size)
            with Mapping(fd, size) as mapping:
                begin = time.perf_counter()
                for offset in range(0, size, 64 << 20):
                    mapping.populate(threads=threads, offset=offset, length=min(64 << 20, size - offset))
                seconds = time.perf_counter() - begin
                assert mapping.resident() == size
        finally:
            os.close(fd)
        return seconds

    rows = [Row(f"{n} threads", lambda n=n: populate(n)) for n in (1, 2, 4, 8, 12, 16)]
    return Question("threads", f"{size >> 20} MiB of base pages populated", "s", rows)


def build_registering(quick: bool) -> Question:
    """Registering populated memory alone, against the bare call."""
    size = GIB // 16 if quick else 4 * GIB
    region = SharedRegion.create(size, pages="base")

    def ours() -> float:
        begin = time.perf_counter()
        made = cuda.register(region)
        seconds = time.perf_counter() - begin
        assert made.pinned == size
        made.close()
        return seconds

    def bare() -> float:
        begin = time.perf_counter()
        (error,) = runtime.cudaHostRegister(region.address, size, 3)
        seconds = time.perf_counter() - begin
        assert int(error) == 0
        assert int(runtime.cudaHostUnregister(region.address)[0]) == 0
        return seconds

    rows = [Row("register()", ours), Row("cudaHostRegister", bare)]
    bars = [Bar("register()", "cudaHostRegister", 1.05)]
    return Question("registering", f"{size >> 20} MiB on base pages", "s", rows, bars, 3, region.close)
