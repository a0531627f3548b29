"""Weights of weighted interleaving, and home nodes, on this machine and on small ones of our own."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from memory import PAGE, pages
from needs import need
from seccomp import Refuse, refused
from trees import node_files, write_tree

from zerosys import (
    PlacementError,
    Unsupported,
    _numa,
    interleave_weights,
    placement,
    set_home_node,
    set_interleave_weight,
)
from zerosys.policy import Bind, Interleave, PreferredMany, WeightedInterleave

ROOT = Path(__file__).parent.parent
NODE = min(_numa.mems_allowed())
FOREIGN = _numa.max_node() + 1
FOLDER = "sys/kernel/mm/mempolicy/weighted_interleave"


def machine(tmp_path):
    return write_tree(
        tmp_path,
        {
            **node_files(0, cpus="0", total=1000),
            **node_files(2, cpus="1", total=1000),
            f"{FOLDER}/node0": "3\n",
            f"{FOLDER}/node2": "1\n",
            f"{FOLDER}/auto": "false\n",
        },
    )


def test_weights_are_read_and_set_by_node(tmp_path):
    root = machine(tmp_path)
    assert interleave_weights(root) == {0: 3, 2: 1}
    set_interleave_weight(2, 9, root=root)
    assert interleave_weights(root) == {0: 3, 2: 9}


def test_weights_that_mean_nothing_are_refused(tmp_path):
    root = machine(tmp_path)
    with pytest.raises(PlacementError, match=r"node 1 does not exist; nodes with a weight: 0,2"):
        set_interleave_weight(1, 3, root=root)
    for weight in (-1, 256):
        with pytest.raises(ValueError, match=f"weight must be 1 to 255 pages, .* not {weight}"):
            set_interleave_weight(0, weight, root=root)


def test_an_older_kernel_has_no_weights_and_says_what_to_use(tmp_path):
    with pytest.raises(Unsupported, match=r"needs Linux 6\.9: use Interleave"):
        interleave_weights(tmp_path)


def test_weights_of_this_machine_and_who_may_set_them():
    try:
        weights = interleave_weights()
    except Unsupported as refusal:
        need("weighted_interleave", str(refusal))
    assert weights[NODE] >= 1
    need("root", None if os.geteuid() == 0 else "only root may set weights, or become another user")
    try:
        set_interleave_weight(NODE, 7)
        assert interleave_weights() == {**weights, NODE: 7}
        with pages(4) as memory:
            assert WeightedInterleave(NODE).apply(memory) == WeightedInterleave(NODE)
            memory.map[0] = 1
            assert placement(memory).nodes == {NODE: 1}
    finally:
        set_interleave_weight(NODE, weights[NODE])
    code = f"""
import os
from zerosys import set_interleave_weight
os.setuid(65534)
try:
    set_interleave_weight({NODE}, {weights[NODE]})
except PermissionError as refusal:
    print(refusal)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == "" and "only root may set the machine's weights" in done.stdout


@pytest.mark.parametrize("policy", [Bind(NODE), PreferredMany(NODE)])
def test_a_bound_range_takes_a_home_node(policy):
    with pages(4) as memory:
        policy.apply(memory)
        set_home_node(memory, NODE)
        memory.map[PAGE] = 1
        assert policy.apply(memory) == policy


def test_a_home_node_where_none_can_be_is_refused_with_the_cause():
    with pages(4) as memory:
        with pytest.raises(
            PlacementError, match=r"the memory has Default\(\), and a home node belongs to Bind"
        ):
            set_home_node(memory, NODE)
        Interleave(NODE).apply(memory)
        with pytest.raises(PlacementError, match="Interleave") as no:
            set_home_node(memory, NODE)
        assert no.value.errno in (errno.EOPNOTSUPP, errno.ENOENT)
        with pytest.raises(PlacementError, match=f"node {FOREIGN} does not exist"):
            set_home_node(memory, FOREIGN)


def test_a_filter_and_an_old_kernel_are_told_apart():
    code = f"""
import mmap
from zerosys import set_home_node
from zerosys.policy import Bind
memory = mmap.mmap(-1, 4096)
Bind({NODE}).apply(memory)
try:
    set_home_node(memory, {NODE})
except OSError as refusal:
    print(type(refusal).__name__, refusal)
"""
    done = refused([Refuse("set_mempolicy_home_node", errno.EPERM)], code)
    assert done.stdout.startswith("PlacementError") and "seccomp filter" in done.stdout, done.stderr
