"""vmsplice into a pipe and splice out of it, both ends busy: loops in zerosys against loops in C.

Two buffers, each in a huge page of its own, are lent in turn; the other end splices the pipe into /dev/null.
"calls" is one Python call a buffer at the lending end. The best row of pipes-speed-test (vmsplice and splice,
huge page, busy) is rebuilt here in C, not run: it lends the halves of one buffer of 256 KiB in one huge page.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import Bar, Row, c_library, main
from benchmarks.forked import GIB, finish, start
from zerosys import Advice, MapFlag, Mapping, SpliceFlag, pump, set_pipe_capacity, vmsplice
from zerosys._lend import lend

HUGE = 2 << 20
Buffers = list[memoryview]


def huge_page() -> memoryview:
    """A private huge page: two ends that work on one page contend for its count of references."""
    mapping = Mapping(None, HUGE, flags=MapFlag.PRIVATE, align=HUGE)
    mapping.advise(Advice.HUGEPAGE)
    view = memoryview(mapping)
    view[:] = os.urandom(HUGE)
    return view


def is_huge() -> bool:
    return any(
        int(line.split()[1]) >= 2048
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines()
        if line.startswith("AnonHugePages")
    )


def address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def by_calls(buffers: Buffers, pipe: int, count: int) -> None:
    turn = done = 0
    flag = SpliceFlag.NONBLOCK.value
    while done < count:
        at = 0
        view = buffers[turn]
        size = len(view)
        while at < size:
            try:
                at += vmsplice(pipe, view[at:] if at else view, flag)
            except BlockingIOError:
                pass
        done += size
        turn ^= 1


def rate(
    lender: Callable[[Buffers, int, int], object],
    drainer: Callable[[int, int, int, int], object],
    buffers: Buffers,
    count: int,
) -> Callable[[], float]:
    """GiB a second."""
    size = len(buffers[0])

    def measure() -> float:
        reader, writer = os.pipe()
        set_pipe_capacity(writer, size)
        with open("/dev/null", "wb", buffering=0) as null:
            began = time.perf_counter()
            pids = [
                start(lambda: lender(buffers, writer, count), 0),
                start(lambda: drainer(reader, null.fileno(), size, count), 1),
            ]
            for pid in pids:
                finish(pid)
            seconds = time.perf_counter() - began
        os.close(reader)
        os.close(writer)
        return count / GIB / seconds

    return measure


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    library = c_library("pump")
    library.c_lend.restype = library.c_drain.restype = ctypes.c_longlong
    library.c_lend.argtypes = [ctypes.c_int, *[ctypes.c_long] * 3, ctypes.c_longlong]
    library.c_drain.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_longlong]

    def lend_in_c(buffers: Buffers, pipe: int, count: int) -> None:
        a, b = map(address, buffers)
        if library.c_lend(pipe, a, b, len(buffers[0]), count) < count:
            raise AssertionError("C: not all was lent")

    def drain_in_c(pipe: int, null: int, size: int, count: int) -> None:
        if library.c_drain(pipe, null, size, count) < count:
            raise AssertionError("C: not all was drained")

    def drain(pipe: int, null: int, size: int, count: int) -> None:
        if pump(pipe, null, count, strict=True, spin=1).moved != count:
            raise AssertionError("not all was moved")

    count = (64 << 20) if quick else (8 << 30)
    one, other = huge_page(), huge_page()
    if not is_huge():
        print("no huge pages were got: the figures are of small ones")
    rows, bars = [], []
    for size in (256 << 10, 512 << 10):
        pair, halves = [one[:size], other[:size]], [one[: size // 2], one[size // 2 : size]]
        kib = f"{size >> 10} KiB"
        rows += [
            Row(f"C, {kib}", rate(lend_in_c, drain_in_c, pair, count)),
            Row(f"C, halves of {kib} in one page", rate(lend_in_c, drain_in_c, halves, count)),
            Row(f"zerosys, {kib}", rate(lambda b, p, n: lend(b, p, n, spin=1), drain, pair, count)),
            Row(f"zerosys calls, {kib}", rate(by_calls, drain, pair, count)),
        ]
        bars += [
            Bar(f"zerosys, {kib}", f"C, {kib}", 0.97, at_least=True),
            Bar(f"zerosys calls, {kib}", f"C, {kib}", 0.90 if size == 256 << 10 else 0.95, at_least=True),
            Bar(f"zerosys, {kib}", "C, halves of 256 KiB in one page", 1.2, at_least=True),
        ]
    yield rows, bars


if __name__ == "__main__":
    main("pump_lend", "GiB a second", build)
