"""Policies, weights and moves over four ordinary nodes."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest
from memory import PAGE, pages

from zerosys import (
    Bind,
    Interleave,
    Preferred,
    PreferredMany,
    SharedRegion,
    WeightedInterleave,
    capabilities,
    interleave_weights,
    memory_policy,
    migrate,
    move_to,
    placement,
    policy_of,
    read_numa_maps,
    run_on,
    set_home_node,
    set_interleave_weight,
    topology,
)

ALL = frozenset(range(4))


@contextmanager
def weights(chosen):
    before = interleave_weights()
    try:
        for node, weight in chosen.items():
            set_interleave_weight(node, weight)
        yield
    finally:
        for node, weight in before.items():
            set_interleave_weight(node, weight)


def touched(policy, n):
    """Where *n* pages lie that were bound and then written."""
    with pages(n) as memory:
        assert policy.apply(memory) == policy == policy_of(memory)
        memory.touch()
        return placement(memory).nodes


def test_the_machine_is_read_as_it_is():
    machine = topology()
    assert machine.allowed_nodes == machine.nodes_with_cpus == machine.nodes_with_memory == ALL
    assert {node.kind for node in machine.nodes.values()} == {"ordinary"}
    assert [machine.nodes[3].distances[node] for node in range(4)] == [22, 21, 12, 10]
    assert sorted(cpu for node in machine.nodes.values() for cpu in node.cpus) == list(range(8))


def test_what_the_firmware_tells_of_speed_is_told():
    for id, node in topology().nodes.items():
        local = node.access[0]
        assert local.initiators == {id}
        assert (local.read_latency, local.write_latency) == (100, 100)
        assert (local.read_bandwidth, local.write_bandwidth) == (8192, 8192)
    assert len({node.tier for node in topology().nodes.values()}) == 1


def test_every_call_that_this_kernel_has_works():
    assert [one.name for one in capabilities().values() if not one.works] == []


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        (Bind(3), {3: 60}),
        (Preferred(2), {2: 60}),
        (PreferredMany([3]), {3: 60}),
        (Interleave("all"), {0: 15, 1: 15, 2: 15, 3: 15}),
        (Interleave("0,2-3"), {0: 20, 2: 20, 3: 20}),
    ],
)
def test_pages_lie_where_the_policy_says(policy, nodes):
    assert touched(policy, 60) == nodes


@pytest.mark.parametrize(
    ("given", "over", "nodes"),
    [
        ({0: 1, 1: 2, 2: 3, 3: 4}, "all", {0: 30, 1: 60, 2: 90, 3: 120}),
        ({0: 5, 1: 9, 2: 9, 3: 1}, "0,3", {0: 250, 3: 50}),
    ],
)
def test_weighted_pages_follow_the_weights(given, over, nodes):
    with weights(given):
        assert touched(WeightedInterleave(over), 300) == nodes
        with SharedRegion.create(300 * PAGE, policy=WeightedInterleave(over), pages="base") as region:
            assert Counter(region.placement().nodes) == Counter(nodes) and region.verify().ok
        with memory_policy(WeightedInterleave(over)), pages(300, touch=True) as memory:
            # a task begins anywhere in its turn, so that the ends of the range may be short of a round
            got = placement(memory).nodes
            assert got.keys() == nodes.keys()
            assert all(abs(got[node] - nodes[node]) <= given[node] for node in nodes)


def test_a_weight_of_nought_gives_the_kernel_s_own_choice_back():
    own = interleave_weights()
    with weights({2: 77}):
        assert interleave_weights()[2] == 77
        set_interleave_weight(2, 0)
        assert interleave_weights()[2] == own[2]


def test_a_home_node_among_many_is_tried_first():
    with run_on(0), pages(64) as memory:
        Bind("1-3").apply(memory)
        set_home_node(memory, 2)
        memory.touch()
        assert placement(memory).nodes == {2: 64}


def test_a_region_goes_round_all_nodes_with_its_contents():
    data = os.urandom(1 << 20)
    with SharedRegion.create(1 << 20, node=0, pages="base") as region:
        memoryview(region)[:] = data
        for node in (2, 1, 3, 0):
            assert region.move_to(node).nodes == {node: 256}
            assert region.verify().ok and region.policy == Bind(node)
        assert bytes(region) == data


def test_pages_from_everywhere_gather_on_one_node():
    with pages(400) as memory:
        Interleave("all").apply(memory)
        memory.touch()
        assert placement(memory).nodes == dict.fromkeys(range(4), 100)
        assert move_to(memory, 1).nodes == {1: 400}


HOLDER = f"""
import mmap, sys
from zerosys import Bind
for node in (0, 1):
    memory = mmap.mmap(-1, (node + 1) * 500 * {PAGE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    Bind(node).apply(memory)
    memory[:] = bytes([1]) * len(memory)
    globals()[f"kept{{node}}"] = memory
print(flush=True)
sys.stdin.read()
"""


def test_a_process_moves_node_for_node():
    """The n-th of the old goes to the n-th of the new."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        child.stdout.readline()

        def held():
            return {
                one.policy: one.nodes for one in read_numa_maps(child.pid) if one.policy.startswith("bind")
            }

        assert held() == {"bind:0": {0: 500}, "bind:1": {1: 1000}}
        assert migrate(child.pid, "0,1", "2,3") >= 0
        assert held() == {"bind:0": {2: 500}, "bind:1": {3: 1000}}
        child.stdin.close()
