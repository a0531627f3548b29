"""What does a placed, populated region cost to set up, against multiprocessing.shared_memory and against C?

Figures are seconds for 1 GiB whose every page exists. shared_memory makes none, so one byte of each page is
written. The C program does what the region does: memfd, size, seals, mmap, mbind where a node is asked for,
for "thp" a base page in each huge page and MADV_COLLAPSE in slices, MADV_POPULATE_WRITE by two threads, and
move_pages over every page where the region verifies. Freed memory goes back to a virtual machine's host,
so each row is made twice in a row and the second counts: warm against warm. hugetlb rows need root, which
reserves the pages and gives them back; without they are left out, and said so.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

from benchmarks.common import Bar, Row, c_library, main
from zerosys import SharedRegion, _numa

PAGE = os.sysconf("SC_PAGE_SIZE")
HUGE = 2 << 20
POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
# As many as a region takes: two on two cores, four at most.
THREADS = min(4, len(os.sched_getaffinity(0)))
# The C program's work item: the longest that a region goes without looking for Ctrl-C.
ITEM = 64 << 20
MODES = {"base": 0, "2M": 1, "thp": 2}
NODE = min(_numa.mems_allowed())


def shared_memory(size: int) -> float:
    """Seconds to make shared memory and write a byte of each page."""
    start = time.perf_counter()
    memory = SharedMemory(create=True, size=size)
    buf = memory.buf
    assert buf is not None
    buf[::PAGE] = bytes(-(-size // PAGE))
    took = time.perf_counter() - start
    if len(buf) < size or any(buf[::HUGE]):
        raise AssertionError("shared_memory: wrong size or contents")
    del buf
    memory.close()
    memory.unlink()
    return took


def region(size: int, pages: str, node: int | None) -> float:
    """Seconds to make a SharedRegion."""
    start = time.perf_counter()
    made = SharedRegion.create(size, pages=pages, node=node)
    took = time.perf_counter() - start
    with made:
        found = made.placement()
        if made.backing.pages != pages or len(made) != size or sum(found.nodes.values()) != found.pages:
            raise AssertionError(f"region of {len(made)} bytes: {made.backing}, {found}")
        if node is not None and not made.verify().ok:
            raise AssertionError(f"region on node {node}: {made.verify()}")
    return took


def c_program(library: ctypes.CDLL, size: int, pages: str, node: int | None) -> float:
    """Seconds that the C program takes; it checks the same."""
    at = ctypes.c_void_p()
    took: float = library.region_make(
        ctypes.c_size_t(size),
        MODES[pages],
        THREADS,
        -1 if node is None else node,
        ctypes.c_size_t(ITEM),
        0,
        ctypes.byref(at),
    )
    library.region_drop(at, ctypes.c_size_t(size))
    if took < 0:
        raise OSError(int(-took), f"C region of {pages} pages: {os.strerror(int(-took))}")
    return took


def warm(name: str, make: Callable[[], float]) -> Row:
    """A row that makes it twice, freeing the first, and counts the second."""

    def measure() -> float:
        make()
        return make()

    return Row(name, measure)


@contextmanager
def pool(pages: int, quick: bool) -> Iterator[bool]:
    """Whether *pages* huge pages are free, reserved meanwhile where we may."""
    before = int((POOL / "nr_hugepages").read_text()) if POOL.exists() else 0
    free = int((POOL / "free_hugepages").read_text()) if POOL.exists() else 0
    if quick or free >= pages or not POOL.exists():
        yield free >= pages  # a quick run changes nothing on the machine
        return
    try:
        (POOL / "nr_hugepages").write_text(str(before - free + pages))
    except PermissionError:
        yield False
        return
    try:
        yield int((POOL / "free_hugepages").read_text()) >= pages
    finally:
        (POOL / "nr_hugepages").write_text(str(before))


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    size = 4 * HUGE if quick else 1 << 30
    library = c_library("region_setup")
    library.region_make.restype = ctypes.c_double
    rows, bars = [warm("shared_memory + touch", lambda: shared_memory(size))], []
    with ExitStack() as stack:
        modes: list[tuple[str, int | None]] = [("base", None), ("base", NODE), ("thp", None)]
        if stack.enter_context(pool(size // HUGE, quick)):
            modes.append(("2M", None))
        else:
            print(
                "hugetlb rows are left out: the pool has too few pages, "
                + ("and --quick reserves none" if quick else "and only root may reserve them")
            )
        for pages, node in modes:
            name = f"{pages} pages" + ("" if node is None else f", on node {node}, verified")
            rows.append(warm(f"C {name}", lambda p=pages, n=node: c_program(library, size, p, n)))  # type: ignore[misc]
            rows.append(warm(f"zerosys {name}", lambda p=pages, n=node: region(size, p, n)))  # type: ignore[misc]
            bars.append(Bar(f"zerosys {name}", f"C {name}", 1.10))
        for who in ("zerosys", "C"):  # whether C meets it tells what this machine can
            bars.append(Bar(f"{who} base pages", "shared_memory + touch", 0.45))
            if ("2M", None) in modes:
                bars.append(Bar(f"{who} 2M pages", "shared_memory + touch", 0.10))
        yield rows, bars


if __name__ == "__main__":
    main("region_setup", "s a GiB", build)
