"""What a process holds, counted: descriptors, mappings, threads. A test of itself is in test_counts.py."""

import gc
import os
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


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail if the block leaves a descriptor, a shared mapping or a thread behind."""
    gc.collect()
    before = descriptors(), mappings(), len(os.listdir("/proc/self/task"))
    yield
    gc.collect()
    after = descriptors(), mappings(), len(os.listdir("/proc/self/task"))
    assert after == before
