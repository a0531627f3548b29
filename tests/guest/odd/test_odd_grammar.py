"""Our grammar of nodes and CPUs beside libnuma's, where a node has no memory, and in a cpuset."""

import os

import grammar
import libnuma
import pytest
from cpusets import inside_group
from grammar import Machine

from zerosys import PlacementError, _numa, cpu_set, node_set, topology


def compare(kind):
    machine = topology()
    if kind == "nodes":
        usable = Machine(frozenset(machine.nodes), machine.all_nodes, libnuma.nodes("all", allowed_only=True))
        return grammar.compared(4000, lambda text: libnuma.nodes(text, allowed_only=True), usable)
    usable = Machine(machine.online_cpus, machine.allowed_cpus, libnuma.cpus("all", allowed_only=True))
    return grammar.compared(4000, lambda text: libnuma.cpus(text, allowed_only=True), usable)


@pytest.mark.parametrize("kind", ["nodes", "cpus"])
def test_every_difference_has_a_name(kind):
    found = compare(kind)
    assert found.get("", []) == []
    assert {None, "backwards", "the empty set"} <= found.keys()
    assert (kind == "nodes") <= ("known but not usable" in found)


def test_the_words_mean_what_may_be_used():
    assert node_set("all") == {0, 1, 3} and node_set("all", role="cpus") == {0, 1, 2}
    assert node_set("!0") == {1, 3} and node_set("!0", role="cpus") == {1, 2}
    assert node_set("+2") == {3} and node_set("+2", role="cpus") == {2}
    assert node_set("0-3") == {0, 1, 2, 3} and node_set("2") == {2}
    with inside_group(cpuset_mems="1,3", cpuset_cpus="1-2"):
        assert _numa.mems_allowed() == {1, 3}
        assert node_set("all") == {1, 3} and node_set("+0") == {1} and node_set("!1") == {3}
        assert cpu_set("all") == os.sched_getaffinity(0) == {1, 2} and cpu_set("+1") == {2}
        assert node_set("0") == {0}  # it exists: whether it may be used, its use will tell
        with pytest.raises(PlacementError, match=r"node \+2, counted from \+0, and 2 may be used: 1,3"):
            node_set("+2")
