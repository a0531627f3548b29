"""Hundreds of command lines mean the same to Debian's numactl and to ours, on this machine."""

import os

import pytest
from commands import installed
from differential import Lines, differences

from zerosys.machine import topology


@pytest.mark.parametrize("seed", range(4))
def test_generated_lines_mean_the_same(tmp_path, seed):
    ours = installed(tmp_path, "numactl") / "numactl"
    machine = topology()
    lines = Lines(sorted(machine.allowed_nodes), sorted(os.sched_getaffinity(0)), seed)
    assert differences(ours, lines, 100) == []
