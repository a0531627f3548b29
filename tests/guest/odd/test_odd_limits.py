"""What a cpuset forbids and what a memory limit leaves, with the kernel's own cgroups (FAULTS N4, N8)."""

import errno
import os
import sys

import pytest
from memory import pages

sys.path.insert(0, os.path.dirname(__file__))

from cpusets import inside_group

from zerosys import _numa
from zerosys.affinity import run_on
from zerosys.errors import PlacementError, PlacementWarning
from zerosys.limits import Headroom, available_memory, require_memory
from zerosys.machine import topology
from zerosys.moving import move_to
from zerosys.policy import Bind, PreferredMany, memory_policy
from zerosys.whereabouts import placement

MIB = 1 << 20


def test_node_that_the_cpuset_forbids_is_told_from_one_that_is_not_there():
    with inside_group(cpuset_mems="1"), pages(4) as memory:
        assert topology().allowed_nodes == {1} == _numa.mems_allowed()
        with pytest.raises(PlacementError, match=r"node 0 is not allowed by the cpuset \(allowed: 1\)"):
            Bind(0).apply(memory)
        with pytest.raises(PlacementError, match=r"node 7 does not exist .*; node 0,3 is not allowed"):
            Bind("0-1,3,7").apply(memory)
        with pytest.warns(PlacementWarning, match="not allowed"):
            assert Bind("0-1,3").apply(memory, strict=False) == Bind(1)
        assert Bind("all") == Bind(1)
        with pytest.raises(PlacementError, match="node 3 is not allowed"):
            move_to(memory, 3)


def test_preferred_many_works_in_a_cpuset_without_node_0():
    with inside_group(cpuset_mems="1"), pages(4) as memory:
        assert PreferredMany(1).apply(memory) == PreferredMany(1)
        memory.touch()
        assert placement(memory).nodes == {1: 4}
        with memory_policy(PreferredMany(1)) as policy:
            assert policy == PreferredMany(1)


def test_cpu_that_the_cpuset_forbids_is_named_and_a_node_needs_only_one():
    before = os.sched_getaffinity(0)
    cpu = min(topology().nodes[1].online_cpus)
    with inside_group(cpuset_cpus=str(cpu), cpuset_mems="0-1"):
        with pytest.raises(PlacementError, match=r"CPU 0.* is not allowed by this process's"), run_on(0):
            pass
        with pytest.raises(PlacementError, match="no CPU of node 0 is allowed by this"), run_on({0, 1}):
            pass
        with pytest.raises(PlacementError, match="CPU 0 is not allowed"), run_on(cpus={0, cpu}):
            pass
        with pytest.warns(PlacementWarning, match="is allowed"), run_on({0, 1}, strict=False) as cpus:
            assert cpus == {cpu}
        for usable in (1, "all"):
            with run_on(usable) as cpus:
                assert cpus == {cpu}
        assert os.sched_getaffinity(0) == {cpu}
    os.sched_setaffinity(0, before)


def test_node_has_less_than_its_size_and_says_so():
    for node in (0, 1, 3):
        assert 0 < available_memory(node) < _numa.node_size(node)[0]
    with pytest.raises(OSError, match="node 1 has") as refusal:
        require_memory(900 * MIB, [1])
    assert refusal.value.errno == errno.ENOMEM
    require_memory(100 * MIB, [1])
    assert available_memory() > available_memory(3)


def test_forecast_falls_by_what_is_touched():
    headroom = Headroom([3])
    before = headroom.available()
    with pages(8192) as memory:
        Bind(3).apply(memory)
        memory.touch()
        # page tables and the like lie elsewhere: this node gave the pages and little more
        assert abs(before - headroom.available() - memory.mapped_size) < 8 * MIB


def test_memory_limit_of_a_cgroup_is_seen_and_named():
    with inside_group(memory_max=str(64 * MIB)) as group:
        assert 0 < available_memory() <= 64 * MIB
        with pytest.raises(OSError, match=rf"cgroup {group} \(memory.max is 64 MiB\) has .* left"):
            require_memory(65 * MIB, [0])
        require_memory(8 * MIB, [0])
        group.joinpath("memory.max").write_text("max")
        require_memory(65 * MIB, [0])


def test_cpuset_confines_the_whole_machine_to_its_nodes():
    everything = available_memory()
    with inside_group(cpuset_mems="3"):
        assert available_memory() < everything / 2
        with pytest.raises(OSError, match="node 3 has"):
            require_memory(600 * MIB)
