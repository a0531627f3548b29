"""Hundreds of command lines mean the same to Debian's numactl and to ours, on this machine."""

import os
from functools import partial

import pytest
from commands import installed
from differential import Lines, differences, seen

from zerosys.machine import topology


def made(seed):
    return Lines(sorted(topology().allowed_nodes), sorted(os.sched_getaffinity(0)), seed)


@pytest.mark.parametrize("seed", range(5))
def test_generated_lines_mean_the_same(seed):
    assert differences(made(seed), 100) == []


def test_generated_lines_mean_the_same_to_the_installed_command(tmp_path):
    numactl = installed(tmp_path, "numactl") / "numactl"
    assert differences(made(99), 100, ours=partial(seen, numactl)) == []
