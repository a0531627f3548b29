"""What the questions share: a part of the report, timing on the device, the kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import cupy
import numpy

from benchmarks.common import Bar, Row

GIB = 1 << 30


@dataclass
class Question:
    """Rows that are measured in the same rounds, and the bars between them; all figures are times."""

    name: str
    asks: str
    unit: str
    rows: list[Row]
    bars: list[Bar] = field(default_factory=list)
    slices: int = 1
    close: Callable[[], object] = lambda: None


def finish() -> None:
    """Wait for everything on the device."""
    cupy.cuda.runtime.deviceSynchronize()


def timed(work: Callable[[], object]) -> float:
    """Seconds until *work*, and what it put on the device, is done."""
    finish()
    begin = time.perf_counter()
    work()
    finish()
    return time.perf_counter() - begin


def pattern(count: int, seed: int) -> numpy.ndarray:
    """*count* 32-bit words that no copy of a part could be taken for."""
    return numpy.random.default_rng(seed).integers(0, 1 << 32, count, "u4")


def on_device(view: object, kind: str, count: int) -> cupy.ndarray:
    """The memory behind *view* as a CuPy array, where the device finds it; no copy."""
    there = cupy.asarray(view)
    assert there.data.ptr == view.pointer  # type: ignore[attr-defined]
    return there.view(kind)[:count]


_SUM = cupy.RawKernel(
    r"""
extern "C" __global__ void add_up(const uint4 *x, unsigned long long n, unsigned long long *out) {
    unsigned long long sum = 0, step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        uint4 v = x[i];
        sum += (unsigned long long)v.x + v.y + v.z + v.w;
    }
    for (int half = 16; half; half >>= 1) sum += __shfl_down_sync(0xffffffff, sum, half);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
""",
    "add_up",
)

_COUNT = cupy.RawKernel(
    r"""
extern "C" __global__ void count(const unsigned int *x, unsigned long long n, unsigned int *table,
                                 unsigned int mask) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        atomicAdd(table + (x[i] & mask), 1u);
}
""",
    "count",
)


def add_up(words: cupy.ndarray) -> int:
    """The sum of 32-bit words, each read once by a kernel."""
    out = cupy.zeros(1, "u8")
    _SUM((132 * 16,), (256,), (words, numpy.uint64(words.size // 4), out))
    return int(out[0])


def count(words: cupy.ndarray, table: cupy.ndarray) -> None:
    """Count the words into the few places of *table*, by atomics that meet."""
    _COUNT((132,), (256,), (words, numpy.uint64(words.size), table, numpy.uint32(table.size - 1)))
