"""Policies as values, applied and read back, on whatever machine this is."""

import json
import mmap
import pickle

import pytest
from memory import PAGE, pages

from zerosys import _numa
from zerosys.errors import PlacementError, PlacementWarning
from zerosys.policy import (
    Bind,
    Default,
    Interleave,
    Local,
    Policy,
    Preferred,
    PreferredMany,
    WeightedInterleave,
    memory_policy,
    policy_of,
)

NODE = min(_numa.mems_allowed())
FOREIGN = _numa.max_node() + 1
EVERY = [Bind(NODE), Preferred(NODE), PreferredMany(NODE), Interleave(NODE), Local(), Default()]


@pytest.mark.parametrize("policy", EVERY)
def test_applied_policy_is_the_one_that_is_read_back(policy):
    with pages(3) as memory:
        assert policy.apply(memory) == policy_of(memory) == policy


@pytest.mark.parametrize("policy", [*EVERY, WeightedInterleave("0,2-5"), Bind({0, 1023})])
def test_policy_survives_pickle_and_json(policy):
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert Policy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    assert eval(repr(policy)) == policy
    assert hash(eval(repr(policy))) == hash(policy)


def test_policies_of_different_kinds_differ():
    assert Bind(0) != Preferred(0) and Local() != Default() and Bind(0) != Bind({0, 1})
    with pytest.raises(AttributeError):
        Bind(0).nodes = frozenset()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mode": "bind"},
        {"mode": "bind", "nodes": ""},
        {"mode": "bind", "nodes": "1024"},
        {"mode": "bind", "nodes": 0},
        {"mode": "local", "nodes": "0"},
        {"mode": "Bind", "nodes": "0"},
        {"mode": "preferred", "nodes": "0-1"},
        {"mode": "bind", "nodes": "0", "x": "0"},
        {"mode": 2, "nodes": "0"},
    ],
)
def test_policy_from_a_stranger_is_checked(fields):
    with pytest.raises(ValueError):
        Policy.from_dict(fields)


@pytest.mark.parametrize(
    "make, kind",
    [
        (lambda: Bind([]), ValueError),
        (lambda: Bind(1.5), TypeError),
        (lambda: Bind(-1), ValueError),
        (lambda: Bind(1024), ValueError),
        (lambda: Preferred("0-1"), ValueError),
        (lambda: Bind(None), TypeError),
        (lambda: Policy(0), TypeError),
        (lambda: memory_policy(0).__enter__(), TypeError),
    ],
)
def test_impossible_policies_cannot_be_made(make, kind):
    with pytest.raises(kind):
        make()


def test_strict_policy_with_a_node_that_is_not_there_changes_nothing():
    """FAULTS N5: the kernel would shrink the set without a word."""
    with pages(1) as memory:
        with pytest.raises(PlacementError, match=f"node {FOREIGN} does not exist"):
            Bind({NODE, FOREIGN}).apply(memory)
        assert policy_of(memory) == Default()


def test_best_effort_gives_the_effective_set_and_warns_at_the_callers_line():
    with pages(1) as memory, pytest.warns(PlacementWarning, match=f"node {FOREIGN} does not exist") as caught:
        assert Bind({NODE, FOREIGN}).apply(memory, strict=False) == Bind(NODE)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", [Bind, Preferred, Interleave, PreferredMany])
def test_unknown_node_is_never_another_node(kind):
    with pages(1) as memory:
        for strict in (True, False):
            with pytest.raises(PlacementError, match="does not exist"):
                kind(FOREIGN).apply(memory, strict=strict)
        assert policy_of(memory) == Default()


def test_any_buffer_can_be_bound_and_asked():
    with mmap.mmap(-1, 3 * PAGE) as memory:
        assert Bind(NODE).apply(memory) == Bind(NODE)
        assert policy_of(memory) == Bind(NODE)
        view = memoryview(memory)[PAGE + 1 : PAGE + 9]
        assert Local().apply(view) == Local()
        view.release()
    assert isinstance(policy_of(b"read-only bytes"), Policy)
    assert Bind(NODE).apply(b"") == Bind(NODE)
    with pytest.raises(TypeError):
        Bind(NODE).apply(7)


def test_thread_has_its_old_policy_after_nested_blocks_and_exceptions():
    _numa.set_mempolicy(_numa.MPOL_BIND | _numa.MPOL_F_STATIC_NODES, [NODE])
    try:
        with memory_policy(Preferred(NODE)) as outer:
            assert outer == Preferred(NODE)
            with pytest.raises(ZeroDivisionError), memory_policy(Interleave("all")) as inner:
                assert inner == Interleave(_numa.mems_allowed())
                raise ZeroDivisionError
            assert _numa.get_mempolicy() == (_numa.MPOL_PREFERRED, {NODE})
            with pytest.raises(PlacementError), memory_policy(Bind(FOREIGN)):
                pass
            assert _numa.get_mempolicy() == (_numa.MPOL_PREFERRED, {NODE})
        assert _numa.get_mempolicy() == (_numa.MPOL_BIND | _numa.MPOL_F_STATIC_NODES, {NODE})
    finally:
        _numa.set_mempolicy(_numa.MPOL_DEFAULT)


def test_policy_block_that_is_not_strict_goes_on_with_what_there_is():
    with pytest.warns(PlacementWarning), memory_policy(Bind({NODE, FOREIGN}), strict=False) as effective:
        assert effective == Bind(NODE)
    assert _numa.get_mempolicy()[0] == _numa.MPOL_DEFAULT
