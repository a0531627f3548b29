"""Huge pages on two nodes: counted, found and moved as huge pages."""

import ctypes
import errno
import mmap
import os
from contextlib import contextmanager

import pytest

from zerosys.limits import Headroom, require_memory
from zerosys.machine import topology
from zerosys.moving import move_to
from zerosys.policy import Bind, policy_of
from zerosys.whereabouts import placement

HUGE = 2 << 20
MFD_HUGETLB = 4


class HugePages:
    """*n* huge pages of the file *fd*."""

    page_size = HUGE

    def __init__(self, fd, n):
        self.map = mmap.mmap(fd, n * HUGE)
        self.mapped_size = n * HUGE
        self._first = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self._first)

    def close(self):
        del self._first
        self.map.close()


@contextmanager
def huge_file(n, mappings=1):
    fd = os.memfd_create("huge", MFD_HUGETLB)
    os.ftruncate(fd, n * HUGE)
    mapped = [HugePages(fd, n) for _ in range(mappings)]
    try:
        yield fd, *mapped
    finally:
        for each in mapped:
            each.close()
        os.close(fd)


def test_pools_are_counted_by_node():
    assert [topology().nodes[node].huge_pages[HUGE] for node in (0, 1)] == [(16, 16), (16, 16)]
    assert Headroom([1], HUGE).available() == 16 * HUGE
    assert Headroom(None, HUGE).available() == 32 * HUGE
    text = "34 MiB asked, but the pool of 2 MiB pages of node 1 has 32 MiB left"
    with pytest.raises(OSError, match=text) as no:
        require_memory(17 * HUGE, [1], huge_page=HUGE)
    assert no.value.errno == errno.ENOMEM


def test_reserved_pages_are_not_free():
    with huge_file(20):
        assert Headroom(None, HUGE).available() == 12 * HUGE


def test_bound_huge_pages_lie_on_their_node_and_move_whole():
    with huge_file(4) as (_, memory):
        assert Bind(1).apply(memory) == policy_of(memory) == Bind(1)
        for at in range(0, 4 * HUGE, HUGE):
            memory.map[at] = 9
        where = placement(memory)
        assert (where.nodes, where.page_size) == ({1: 4}, HUGE)
        assert move_to(memory, 0).nodes == {0: 4}
        assert memory.map[3 * HUGE] == 9


def test_absent_and_unmapped_huge_pages_are_told_apart_by_the_file():
    with huge_file(4, mappings=2) as (fd, mine, theirs):
        where = placement(mine)
        assert (where.absent, where.unmapped, where.unknown) == (0, 0, 4)
        assert placement(mine, fd=fd).absent == 4
        theirs.map[0] = theirs.map[HUGE] = 1
        where = placement(mine, fd=fd)
        assert (where.nodes, where.absent, where.unmapped, where.unknown) == ({}, 2, 2, 0)
        assert mine.map[0] == 1
        where = placement(mine, fd=fd)
        assert (sum(where.nodes.values()), where.absent, where.unmapped) == (1, 2, 1)
