"""Processes, huge pages on one node alone, and what the kernel refuses, on four uneven nodes."""

import errno
import os
import re
import subprocess
import sys

import pytest
from cpusets import inside_group
from memory import PAGE, pages

from zerosys import (
    Bind,
    MoveTimeout,
    PlacementError,
    SharedRegion,
    available_memory,
    capabilities,
    hugepages,
    migrate,
    move_to,
    node_set,
    placement,
    read_numa_maps,
    set_home_node,
    topology,
)

MIB = 1 << 20
HOLDER = f"""
import mmap, sys
memory = mmap.mmap(-1, 1000 * {PAGE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = bytes([1]) * len(memory)
print(flush=True)
sys.stdin.read()
"""


class Holder:
    """A process that has a thousand pages, until it is left."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.process.stdout.readline()
        return self.process.pid

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def largest(pid):
    """The nodes of the thousand pages: no other mapping of the process has as many that are its own."""
    return max(read_numa_maps(pid), key=lambda one: one.counts.get("anon", 0)).nodes


def test_a_process_is_moved_to_the_node_that_has_memory_alone_and_back():
    with Holder() as pid:
        migrate(pid, "!3", 3)
        assert largest(pid) == {3: 1000} and placement(pid).nodes[3] >= 1000
        migrate(pid, 3, 1)
        assert largest(pid) == {1: 1000}


def test_a_process_is_not_moved_to_where_no_memory_is():
    with pytest.raises(
        PlacementError, match=r"migrate_pages: node 2 has no memory \(nodes with memory: 0-1,3\)"
    ) as no:
        migrate(0, 0, 2)
    assert no.value.errno == errno.EINVAL


def test_a_cpuset_that_forbids_the_node_is_named():
    """Without CAP_SYS_NICE a process is moved only to what its own cpuset allows."""
    code = """
import os
from zerosys import migrate, topology
topology()
try:
    migrate(0, 1, 3)
except OSError:
    pass
os.setgid(65534); os.setuid(65534)
try:
    migrate(0, 1, 0)
except OSError as refusal:
    print(refusal)
"""
    with inside_group(cpuset_mems="1,3"):
        assert node_set("all") == {1, 3}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == ""
    assert re.search(r"node 0 is not allowed by the cpuset", done.stdout), done.stdout


def test_moving_in_time_slices_reaches_the_highest_node():
    with pages(2500) as memory:
        Bind(1).apply(memory)
        memory.map[: 2500 * PAGE] = bytes(2500 * PAGE)
        offset, stops = 0, 0
        while True:
            try:
                assert move_to(memory, 3, timeout=0, offset=offset).nodes == {3: 2500}
                break
            except MoveTimeout as up:
                offset, stops = up.offset, stops + 1
        assert stops == 2


def test_a_home_node_may_be_the_one_without_cpus():
    with pages(32) as memory:
        Bind({0, 1, 3}).apply(memory)
        set_home_node(memory, 3)
        memory.map[: 32 * PAGE] = bytes(32 * PAGE)
        assert placement(memory).nodes == {3: 32}
        with pytest.raises(PlacementError, match="node 2 has no memory"):
            set_home_node(memory, 2)


def test_huge_pages_on_one_node_alone():
    """FAULTS, also seen: a set-up that wrote node 0 only."""
    before = {node: pool[2 * MIB] for node, pool in hugepages.pools().items()}
    hugepages.reserve(4, 1)
    try:
        free = {node: pool[2 * MIB].free for node, pool in hugepages.pools().items()}
        assert free == {node: pool.free + 4 * (node == 1) for node, pool in before.items()}
        assert topology().nodes[1].huge_pages[2 * MIB] == (4, 4)
        with SharedRegion.create(8 * MIB, node=1, pages="2M") as region:
            assert region.placement().nodes == {1: 4}
        with pytest.raises(OSError, match="pool of 2 MiB pages of node 0"):
            SharedRegion.create(8 * MIB, node=0, pages="2M")
    finally:
        hugepages.give_back(4, 1)
    assert {node: pool[2 * MIB] for node, pool in hugepages.pools().items()} == before
    with pytest.raises((OSError, ValueError), match=r"0 granted|node 2 has no pools of huge pages"):
        hugepages.reserve(1, 2)  # newer kernels give it a pool that stays empty


def test_what_each_node_has_to_give_is_told():
    machine = topology()
    assert [machine.nodes[id].memory_available > 0 for id in (0, 1, 2, 3)] == [True, True, False, True]
    for id in (0, 1, 3):
        assert abs(available_memory(id) - machine.nodes[id].memory_available) < 128 * MIB
    assert available_memory(2) == 0
    assert machine.nearest_cpus(3) and machine.nearest_cpus(2) == machine.nodes[2].online_cpus
    assert machine.balancing in (True, False)


def test_every_call_works_here_or_is_the_kernels_age():
    found = capabilities()
    version = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    refused = {name: one.cause for name, one in found.items() if not one}
    assert refused == ({} if version >= (6, 9) else {"weighted interleave": "kernel"})


def test_calls_are_probed_on_an_allowed_node():
    """FAULTS N4: a probe with node 0 says in such a cpuset that the kernel lacks what it has."""
    with inside_group(cpuset_mems="3"):
        found = capabilities()
    assert found["preferred many"] and found["mbind"] and found["move_pages"] and found["migrate_pages"]
