"""What does it cost to join a region, against SharedMemory(name) and against open + fstat + mmap?

Figures are microseconds for memory of one page, so that what counts is the joining and not the mapping of
many pages. "first" is the first attach in a fresh process, modules imported: SharedMemory starts its tracker
there. "later" are attaches in a process that has done it before, closed again outside the timed part. What
is done for the first time costs about five times as much for everybody (cold caches): the row of
open + fstat + mmap, first, is the floor that says so.
"""

import mmap
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.shared_memory import SharedMemory

from benchmarks.common import HERE, Bar, Row, main
from zerosys import SharedRegion
from zerosys.shared_memory import SharedMemory as OurMemory

SIZE = os.sysconf("SC_PAGE_SIZE")
MARK = b"here"
LATER = 200  # attaches a slice, of which the median counts

CLOCK = """
import sys, time
{setup}
start = time.perf_counter_ns()
joined = {attach}
took = time.perf_counter_ns() - start
assert bytes(joined.buf[:4] if hasattr(joined, "buf") else memoryview(joined)[:4]) == b"here"
{after}
print(took)
"""
FIRST = {
    # Told to forget it: the tracker would remove the parent's memory when this process ends.
    "SharedMemory": CLOCK.format(
        setup="from multiprocessing import resource_tracker\n"
        "from multiprocessing.shared_memory import SharedMemory",
        attach="SharedMemory(name=sys.argv[1])",
        after="resource_tracker.unregister(joined._name, 'shared_memory')",
    ),
    "open + fstat + mmap": CLOCK.format(
        setup="import mmap, os\ndef join(path):\n    fd = os.open(path, os.O_RDWR)\n"
        "    return mmap.mmap(fd, os.fstat(fd).st_size)",
        attach="join(sys.argv[1])",
        after="",
    ),
    "zerosys": CLOCK.format(
        setup="from zerosys import SharedRegion", attach="SharedRegion.attach(int(sys.argv[1]))", after=""
    ),
    "zerosys by name": CLOCK.format(
        setup="from zerosys import SharedRegion", attach="SharedRegion.attach(sys.argv[1])", after=""
    ),
    "zerosys's SharedMemory": CLOCK.format(
        setup="from zerosys.shared_memory import SharedMemory", attach="SharedMemory(sys.argv[1])", after=""
    ),
}


def first(who: str, argument: str, *fds: int) -> Row:
    """A row that attaches once in a process of its own."""

    def measure() -> float:
        done = subprocess.run(
            [sys.executable, "-c", FIRST[who], argument],
            cwd=HERE.parent,
            pass_fds=fds,
            stdout=subprocess.PIPE,
            check=True,
        )
        return int(done.stdout) / 1e3

    return Row(f"{who}, first", measure)


def later(name: str, attach: Callable[[], Callable[[], None]], n: int) -> Row:
    """A row that attaches *n* times here; *attach* gives what closes it again."""

    def measure() -> float:
        figures = []
        for _ in range(n):
            start = time.perf_counter_ns()
            close = attach()
            figures.append(time.perf_counter_ns() - start)
            close()
        return statistics.median(figures) / 1e3

    return Row(f"{name}, later", measure)


def by_hand(path: str) -> Callable[[], None]:
    """open + fstat + mmap."""
    fd = os.open(path, os.O_RDWR)
    joined = mmap.mmap(fd, os.fstat(fd).st_size)

    def close() -> None:
        if joined[:4] != MARK:
            raise AssertionError("open + fstat + mmap joined something else")
        joined.close()
        os.close(fd)

    return close


def joined(memory: SharedRegion) -> Callable[[], None]:
    def close() -> None:
        with memoryview(memory) as view:
            if view[:4] != MARK:
                raise AssertionError(f"{memory!r} is something else")
        memory.close()

    return close


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    n = 3 if quick else LATER
    with ExitStack() as stack:
        theirs = SharedMemory(create=True, size=SIZE)
        stack.callback(theirs.unlink)
        stack.callback(theirs.close)
        ours = stack.enter_context(SharedRegion.create(SIZE, pages="base"))
        handle = stack.enter_context(ours.handle())
        named = stack.enter_context(SharedRegion.create(SIZE, name=f"zerosys-bench-{os.getpid()}"))
        stack.callback(named.unlink)
        name = str(named.name)
        for memory in (theirs.buf, ours, named):
            with memoryview(memory) as view:  # type: ignore[arg-type]
                view[:4] = MARK
        rows = [
            first("SharedMemory", theirs.name),
            first("open + fstat + mmap", f"/dev/shm/{theirs.name}"),
            first("zerosys", str(ours.fileno()), ours.fileno()),
            first("zerosys by name", name),
            first("zerosys's SharedMemory", name),
            later("open + fstat + mmap", lambda: by_hand(f"/dev/shm/{theirs.name}"), n),
            later("SharedMemory", lambda: SharedMemory(name=theirs.name).close, n),
            later("zerosys by descriptor", lambda: joined(SharedRegion.attach(ours)), n),
            later("zerosys by handle", lambda: joined(SharedRegion.attach(handle)), n),
            later("zerosys by name", lambda: joined(SharedRegion.attach(name)), n),
            later("zerosys's SharedMemory", lambda: OurMemory(name).close, n),
        ]
        yield (
            rows,
            [
                Bar("zerosys, first", "SharedMemory, first", 0.06),
                Bar("zerosys by descriptor, later", "open + fstat + mmap, later", 2),
                Bar("zerosys by handle, later", "open + fstat + mmap, later", 2),
                Bar("zerosys by name, later", "open + fstat + mmap, later", 2),
            ],
        )


if __name__ == "__main__":
    main("region_attach", "us an attach", build, slices=10)
