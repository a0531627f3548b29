"""What do placement() and move_to() of 1 GiB of base pages cost, against the same calls in C?

Figures are milliseconds. With two nodes or more the memory goes there and back between two of them; with
one it is "moved" to where it is, which has the kernel look at every page and leave it: that judges what
Python adds, not the kernel's copying. "a process" is placement(pid) of this one, which has the same memory.
"""

import ctypes
import mmap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.common import Bar, Row, c_library, main
from zerosys import Bind, move_to, placement, topology

PAGE = mmap.PAGESIZE


def in_c(name: str, address: int, pages: int, nodes: list[int]) -> Callable[[], float]:
    """The C loop *name*; with several *nodes*, to each in turn."""
    function = getattr(c_library("placement"), name)
    function.restype = ctypes.c_longlong
    function.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_int]

    def measure() -> float:
        took = [function(address, pages, PAGE, node) for node in nodes]
        if min(took) < 0:
            raise AssertionError(f"{name} in C: not every page was on the node")
        return sum(took) / len(took) / 1e6

    return measure


def by_us(call: Callable[[int], dict[int, int]], pages: int, nodes: list[int]) -> Callable[[], float]:
    def measure() -> float:
        took = 0.0
        for node in nodes:
            start = time.perf_counter()
            found = call(node)
            took += time.perf_counter() - start
            if found.get(node, 0) < pages:
                raise AssertionError(f"{found}: not {pages} pages on node {node}")
        return took / len(nodes) * 1e3

    return measure


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    size = 16 << 20 if quick else 1 << 30
    pages = size // PAGE
    ends = sorted(topology().all_nodes)[:2]
    home, tour = ends[0], list(reversed(ends))  # away first, so that a round ends where it began
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        Bind(home).apply(memory)
        memory[:] = bytes([1]) * size
        pinned = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(pinned)
        rows = [
            Row("look in C", in_c("look", address, pages, [home])),
            Row("placement(memory)", by_us(lambda node: dict(placement(memory).nodes), pages, [home])),
            Row("placement(pid), a process", by_us(lambda node: dict(placement(0).nodes), pages, [home])),
            Row("move and look in C", in_c("move", address, pages, tour)),
            Row("move_to(memory)", by_us(lambda node: dict(move_to(memory, node).nodes), pages, tour)),
        ]
        yield (
            rows,
            [
                Bar("placement(memory)", "look in C", 1.1),
                Bar("move_to(memory)", "move and look in C", 1 / 0.95),
            ],
        )
        del pinned


if __name__ == "__main__":
    main("placement", "ms for 1 GiB of base pages", build, slices=8)
