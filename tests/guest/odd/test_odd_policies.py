"""Policies and placement where node 2 has no memory and node 3 no CPU (FAULTS N3 to N7)."""

import errno
import mmap
import os
import traceback
from pathlib import Path

import pytest
from memory import PAGE, pages
from needs import need

from zerosys import _numa
from zerosys.affinity import run_on
from zerosys.errors import PlacementError, PlacementWarning
from zerosys.limits import require_memory
from zerosys.machine import topology
from zerosys.moving import move_to
from zerosys.policy import (
    Bind,
    Interleave,
    Local,
    Preferred,
    PreferredMany,
    WeightedInterleave,
    memory_policy,
    policy_of,
)
from zerosys.whereabouts import placement


def touched(policy, n=64):
    """Where *n* pages lie that were bound and then written."""
    with pages(n) as memory:
        assert policy.apply(memory) == policy
        memory.touch()
        return placement(memory).nodes


def test_the_machine_is_read_as_it_is():
    machine = topology()
    kinds = [machine.nodes[id].kind for id in (0, 1, 2, 3)]
    assert kinds == ["ordinary", "ordinary", "no memory", "no cpus"]
    assert machine.nodes_with_cpus == {0, 1, 2} and machine.nodes_with_memory == {0, 1, 3}
    assert machine.nodes[0].distances[3] == _numa.distance(0, 3) > 10
    assert machine.allowed_nodes == {0, 1, 3}


@pytest.mark.parametrize("node", [0, 1, 3])
def test_bound_pages_lie_on_their_node_the_highest_too(node):
    assert touched(Bind(node)) == {node: 64}
    assert touched(Preferred(node)) == {node: 64}
    assert touched(PreferredMany([node])) == {node: 64}


def test_interleaved_pages_take_turns():
    assert touched(Interleave({0, 3})) == {0: 32, 3: 32}
    assert touched(Interleave("all"), 60) == {0: 20, 1: 20, 3: 20}


def test_weighted_pages_follow_the_weights():
    weights = Path("/sys/kernel/mm/mempolicy/weighted_interleave")
    need("weighted-interleave", None if weights.is_dir() else "this kernel is older than Linux 6.9")
    for node, weight in ((0, 3), (1, 1)):
        (weights / f"node{node}").write_text(str(weight))
    assert touched(WeightedInterleave({0, 1})) == {0: 48, 1: 16}


def test_local_pages_follow_the_toucher():
    for node in (0, 1):
        with run_on(node):
            assert touched(Local()) == {node: 64}


def test_thread_policy_places_what_the_block_touches():
    with memory_policy(Bind(3)), pages(8, touch=True) as memory:
        assert placement(memory).nodes == {3: 8}
    assert _numa.get_mempolicy() == (_numa.MPOL_DEFAULT, frozenset())


def test_binding_after_touching_moves_nothing_and_placement_says_so():
    with memory_policy(Bind(0)), pages(16, touch=True) as memory:
        assert Bind(1).apply(memory) == Bind(1) == policy_of(memory)
        assert placement(memory).nodes == {0: 16}
        with pytest.raises(OSError) as refusal:
            _numa.mbind(memory.address, memory.mapped_size, _numa.MPOL_BIND, [1], _numa.MPOL_MF_STRICT)
        assert refusal.value.errno == errno.EIO
        assert move_to(memory, 1).nodes == {1: 16}


def test_policy_of_a_memfd_holds_for_pages_touched_through_another_mapping():
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 16 * PAGE)
        with mmap.mmap(fd, 16 * PAGE) as bound, mmap.mmap(fd, 16 * PAGE) as other:
            Bind(3).apply(bound)
            for at in range(0, 16 * PAGE, PAGE):
                other[at] = 1
            assert placement(other).nodes == {3: 16}
            where = placement(bound)
            assert (where.nodes, where.absent, where.unmapped) == ({}, 0, 16)
    finally:
        os.close(fd)


def test_moving_goes_to_every_node_and_counts_what_is_absent():
    with pages(5000) as memory:
        for at in range(0, 4500 * PAGE, PAGE):
            memory.map[at] = 7
        for node in (3, 1, 0):
            where = move_to(memory, node)
            assert (where.nodes, where.absent) == ({node: 4500}, 500)
        assert memory.map[4499 * PAGE] == 7


def test_pages_mapped_twice_move_only_with_the_capability():
    """As root; and after the capability was dropped, PlacementError counts them and names the remedy."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, 8 * PAGE)
    with mmap.mmap(fd, 8 * PAGE) as first, mmap.mmap(fd, 8 * PAGE) as second:
        with memory_policy(Bind(0)):
            for at in range(0, 8 * PAGE, PAGE):
                first[at] = second[at] = 1
        assert move_to(first, 1).nodes == {1: 8}
        child = os.fork()
        if not child:
            try:
                os.setuid(65534)
                # fork copies no page table of shared memory: the pages are there, but not here
                with pytest.raises(PlacementError, match="8 pages exist that this process has not mapped"):
                    move_to(first, 0)
                assert first[::PAGE] == bytes([1] * 8)
                with pytest.raises(PlacementError, match=r"8 of 8 pages .* CAP_SYS_NICE") as refusal:
                    move_to(first, 0)
                assert (refusal.value.errno, refusal.value.pages) == (errno.EACCES, {-errno.EACCES: 8})
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert placement(first).nodes == {1: 8}
    os.close(fd)


def test_migrate_pages_moves_what_a_process_has():
    with memory_policy(Bind(0)), pages(32, touch=True) as memory:
        assert _numa.migrate_pages(0, [0], [1]) >= 0
        assert placement(memory).nodes == {1: 32}
        _numa.migrate_pages(0, [1], [0])


def test_home_node_is_tried_first():
    with pages(16) as memory:
        Bind({0, 3}).apply(memory)
        _numa.set_mempolicy_home_node(memory.address, memory.mapped_size, 3)
        with run_on(0):
            memory.touch()
        assert placement(memory).nodes == {3: 16}


def test_running_needs_cpus_and_memory_needs_memory():
    with pytest.raises(PlacementError, match=r"node 3 has no CPUs.*nodes with CPUs: 0-2"), run_on(3):
        pass
    with pytest.raises(PlacementError, match="node 3 has no CPUs"), run_on({1, 3}):
        pass
    with pytest.warns(PlacementWarning, match="node 3 has no CPUs"), run_on({1, 3}, strict=False) as cpus:
        assert {_numa.node_of_cpu(cpu) for cpu in cpus} == {1}
    with pytest.raises(OSError, match="no CPU of node 3"):
        _numa.run_on_node(3)
    with run_on(1) as cpus:
        assert _numa.getcpu()[1] == 1 and cpus == topology().nodes[1].online_cpus


def test_strict_policy_names_the_node_that_is_not_there():
    with pages(1) as memory:
        with pytest.raises(PlacementError, match=r"node 7,9 does not exist \(this machine's nodes: 0-3\)"):
            Bind({1, 3, 7, 9}).apply(memory)
        with pytest.warns(PlacementWarning):
            assert Bind({1, 3, 7, 9}).apply(memory, strict=False) == Bind({1, 3})


@pytest.mark.parametrize("kind", [Bind, Preferred, Interleave, PreferredMany])
def test_node_without_memory_is_refused_as_such(kind):
    with pages(1) as memory:
        for strict in (True, False):
            with pytest.raises(PlacementError, match=r"node 2 has no memory \(nodes with memory: 0-1,3\)"):
                kind(2).apply(memory, strict=strict)
        with pytest.raises(PlacementError, match="node 2 has no memory"):
            move_to(memory, 2)
    with pytest.raises(OSError, match="node 2 has 0 bytes left"):
        require_memory(1, [2])


def test_running_on_a_node_without_memory_works():
    with run_on(2) as cpus:
        assert cpus == {3} and _numa.getcpu() == (3, 2)
        assert sum(touched(Local()).values()) == 64
    before = os.sched_getaffinity(0)
    _numa.run_on_node_mask([2])
    assert os.sched_getaffinity(0) == {3}
    os.sched_setaffinity(0, before)
    assert _numa.node_size(2) == (0, 0) and _numa.max_node() == 3
