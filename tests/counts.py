"""What a process holds, counted: descriptors, mappings, threads. A test of itself is in test_counts.py."""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Arenas of the allocators come and go; a leak in these tests maps files or reserves addresses.
_OURS = ("memfd:", "/dev/shm", "(deleted)", "anon_hugepage")


def descriptors() -> dict[int, str]:
    """Each open descriptor and what it is."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            pass  # the listing's own
    return found


def mappings() -> int:
    """The mappings of shared or nameless files in this process."""
    with open("/proc/self/maps") as lines:
        return sum(any(mark in line for mark in _OURS) for line in lines)


def threads() -> set[str]:
    """The numbers of this process's threads."""
    return set(os.listdir("/proc/self/task"))


def threads_since(before: set[str]) -> set[str]:
    """The threads that there were not *before*. One that was joined is listed a moment longer."""
    until = time.monotonic() + 1
    while (new := threads() - before) and time.monotonic() < until:
        time.sleep(0.01)
    return new


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail if the block leaves a descriptor, a shared mapping or a thread behind."""
    gc.collect()
    before, running = (descriptors(), mappings()), threads()
    yield
    gc.collect()
    assert (descriptors(), mappings()) == before
    assert threads_since(running) == set()
