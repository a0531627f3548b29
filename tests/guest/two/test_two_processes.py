"""Other processes' pages on two nodes: where they lie, and moving them; home nodes and weights."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from memory import PAGE, pages

from zerosys import (
    Bind,
    MoveTimeout,
    SharedRegion,
    Unsupported,
    WeightedInterleave,
    interleave_weights,
    migrate,
    move_to,
    placement,
    read_numa_maps,
    run_on,
    set_home_node,
    set_interleave_weight,
)

MIB = 1 << 20
HOLDER = f"""
import mmap, sys
from zerosys import Bind
memory = mmap.mmap(-1, 2000 * {PAGE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
Bind(0).apply(memory)
memory[:] = bytes([1]) * len(memory)
print(flush=True)
sys.stdin.read()
"""


def test_a_process_is_moved_to_the_other_node_and_its_policy_stays():
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        child.stdout.readline()
        [held] = [one for one in read_numa_maps(child.pid) if one.policy == "bind:0"]
        assert held.nodes == {0: 2000} and placement(child.pid).nodes[0] >= 2000
        assert migrate(child.pid, 0, 1) >= 0
        [held] = [one for one in read_numa_maps(child.pid) if one.address == held.address]
        assert held.nodes == {1: 2000}
        assert placement(child.pid).nodes[1] >= 2000
        assert migrate(child.pid, "!0", "0") >= 0
        [held] = [one for one in read_numa_maps(child.pid) if one.address == held.address]
        assert held.nodes == {0: 2000}
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait()


def test_moving_stops_when_the_time_is_up_and_goes_on_from_there():
    with pages(8192) as memory:
        Bind(0).apply(memory)
        memory.map[: 8192 * PAGE] = bytes(8192 * PAGE)
        with pytest.raises(MoveTimeout) as up:
            move_to(memory, 1, timeout=0)
        assert up.value.offset == 4 * MIB and up.value.pages == {1: 1024}
        assert placement(memory).nodes == {0: 7168, 1: 1024}
        assert move_to(memory, 1, timeout=600, offset=up.value.offset).nodes == {1: 8192}


def test_a_home_node_is_tried_first():
    with run_on(0), pages(64) as memory:
        Bind({0, 1}).apply(memory)
        set_home_node(memory, 1)
        memory.map[: 64 * PAGE] = bytes(64 * PAGE)
        assert placement(memory).nodes == {1: 64}


def test_weights_decide_how_many_pages_go_where_or_the_kernel_is_named_as_too_old():
    version = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    if version < (6, 9):
        with pytest.raises(Unsupported, match=r"needs Linux 6\.9"):
            interleave_weights()
        with pytest.raises(Unsupported, match=r"needs Linux 6\.9: use Interleave"), pages(1) as memory:
            WeightedInterleave({0, 1}).apply(memory)
        return
    before = interleave_weights()
    try:
        set_interleave_weight(0, 3)
        set_interleave_weight(1, 1)
        assert interleave_weights() == {**before, 0: 3, 1: 1}
        with SharedRegion.create(400 * PAGE, policy=WeightedInterleave({0, 1}), pages="base") as region:
            assert Counter(region.placement().nodes) == Counter({0: 300, 1: 100})
    finally:
        for node, weight in before.items():
            set_interleave_weight(node, weight)
