"""The command where node 2 has no memory and node 3 no CPU, and in cpusets (FAULTS N3 to N5, N10)."""

import re
import subprocess
import sys
from pathlib import Path

import debian
import pytest
from commands import installed
from cpusets import inside_group
from differential import PROBE, Lines, differences, seen, seen_here
from launchers import rank_lines

from zerosys.cli.gnu import Usage
from zerosys.cli.numactl.options import NUMACTL, Words

SEEN = "grep ^Cpus_allowed_list: /proc/self/status; sed 's/ file=.*//; s/[^ ]* //; q' /proc/self/numa_maps"


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("bin"), "numactl") / "numactl"


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100)


def zerosys(*words):
    return run(sys.executable, "-m", "zerosys", *words)


def excuse(line, nodes):
    """The differences of docs/numactl.md that a machine with gaps shows."""
    try:
        options = list(Words(line, NUMACTL))
    except Usage:
        return None
    for name, value in options:
        if "!" in value:
            return "numactl counts nodes with memory where it should count numbers"
        if name in ("cpunodebind", "cpubind") and re.search(r"all|same|0-3|1-3|3-|-\d+$|\+", value):
            return "a node without memory has CPUs to run on"
        if "all,0" in value:
            return "all beside other members"
    return None


@pytest.mark.timeout(600)
def test_generated_lines_mean_the_same():
    assert differences(Lines([0, 1, 3], [0, 1, 2, 3], 5), 40, excuse) == []


@pytest.mark.parametrize("option", ["-H", "-s"])
def test_what_is_told_is_numactls_to_the_byte(ours, option):
    def told(numactl):
        return re.sub(r"free: \d+", "free: ?", run(numactl, option).stdout)

    assert told(ours) == told(debian.tool("numactl"))


def test_lines_that_a_launcher_builds_for_each_rank_place_the_same(ours):
    theirs = debian.tool("numactl")
    lines = list(rank_lines(run(ours, "--hardware").stdout, 4))
    assert lines == list(rank_lines(run(theirs, "--hardware").stdout, 4))
    assert ["-p", "3", "-C", "0"] in lines
    for line in lines:
        assert seen_here([*line, "sh", "-c", PROBE]) == seen(theirs, [*line, "sh", "-c", PROBE]), line


# --- running needs CPUs, memory needs memory (N3) ------------------------------------------------


def test_a_node_without_memory_can_be_run_on(ours):
    assert debian_refuses("-N", "2")
    for command in ([ours, "-N", "2"], [sys.executable, "-m", "zerosys", "run", "--cpunodebind=2", "--"]):
        done = run(*command, "sh", "-c", SEEN)
        assert (done.returncode, done.stdout) == (0, "Cpus_allowed_list:\t3\ndefault\n"), done.stderr
    assert (
        zerosys("run", "-N", "2", sys.executable, "-m", "zerosys", "show").stdout.splitlines()[3]
        == "cpubind: 2 "
    )


def debian_refuses(*options):
    return run(debian.tool("numactl"), *options, "true").returncode == 1


def test_what_is_missing_is_named():
    done = zerosys("run", "--cpunodebind=3", "--", "true")
    assert done.returncode == 125 and "node 3 has no CPUs" in done.stderr
    done = zerosys("run", "--membind=2", "--", "true")
    assert done.returncode == 125 and "node 2 has no memory (nodes with memory: 0-1,3)" in done.stderr
    for mode in ("-i", "-p", "-P"):
        done = zerosys("run", mode, "2", "true")
        assert done.returncode == 125 and "node 2 has no memory" in done.stderr


def test_called_numactl_the_codes_are_numactls_and_the_cause_is_named(ours):
    for options, cause in (("-N 3", "has no CPUs"), ("-m 2", "has no memory"), ("-m 9", "does not exist")):
        done = run(ours, *options.split(), "true")
        assert done.returncode == 1 and cause in done.stderr


def test_a_range_passes_over_the_node_without_memory():
    assert zerosys("run", "-m", "0-3", "sh", "-c", SEEN).stdout.endswith("bind:0-1,3\n")
    done = zerosys("run", "--best-effort", "-m", "2-3", "-N", "2-3", "sh", "-c", SEEN)
    assert (done.returncode, done.stdout) == (0, "Cpus_allowed_list:\t3\nbind:3\n")
    assert "node 2 has no memory" in done.stderr and "node 3 has no CPUs" in done.stderr
    assert zerosys("run", "-N", "all", "sh", "-c", SEEN).stdout.startswith("Cpus_allowed_list:\t0-3\n")


# --- cpusets (N4, N5) ----------------------------------------------------------------------------


def test_in_a_cpuset_without_node_0(ours):
    with inside_group(cpuset_mems="1"):
        assert debian_refuses("-P", "1") and debian_refuses("-m", "0")
        for command in ([ours], [sys.executable, "-m", "zerosys", "run"]):
            done = run(*command, "--preferred-many=1", "sh", "-c", SEEN)
            assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["prefer (many):1"]), done.stderr
            done = run(*command, "-i", "all", "sh", "-c", SEEN)
            assert done.stdout.endswith("interleave:1\n")
            done = run(*command, "--membind=0", "true")
            assert done.returncode in (1, 125)
            assert "node 0 is not allowed by the cpuset (allowed: 1)" in done.stderr
        done = zerosys("run", "--membind=7", "true")
        assert "node 7 does not exist" in done.stderr and "cpuset" not in done.stderr


def test_a_mask_that_would_shrink_is_an_error_unless_that_was_asked(ours):
    with inside_group(cpuset_mems="0-1"):
        strict = zerosys("run", "--all", "-m", "0,3", "true")
        assert strict.returncode == 125 and "node 3 is not allowed by the cpuset" in strict.stderr
        best = zerosys("run", "--all", "--best-effort", "-m", "0,3", "sh", "-c", SEEN)
        assert best.stdout.endswith("bind:0\n") and "node 3 is not allowed" in best.stderr
        only = zerosys("run", "--allowed-only", "-m", "0,3", "sh", "-c", SEEN)
        assert only.stdout.endswith("bind:0\n") and only.stderr == ""
        mine, theirs = (
            run(ours, "-a", "-m", "0,3", "sh", "-c", SEEN),
            run(debian.tool("numactl"), "-a", "-m", "0,3", "sh", "-c", SEEN),
        )
        assert (mine.returncode, mine.stdout) == (theirs.returncode, theirs.stdout)
        assert "node 3 is not allowed by the cpuset" in mine.stderr
    with inside_group(cpuset_cpus="0"):
        done = zerosys("run", "-N", "1", "true")
        assert done.returncode == 125 and "not allowed by this process's cpuset" in done.stderr
        done = zerosys("run", "-N", "0-1", "sh", "-c", SEEN)
        assert done.stdout.startswith("Cpus_allowed_list:\t0\n")


def test_plan_tells_what_the_kernel_granted():
    with inside_group(cpuset_mems="1,3"):
        done = zerosys("run", "--plan", "--best-effort", "-N", "2", "-m", "0-3", "x")
        assert done.stdout.splitlines()[:3] == ["command   x", "CPUs      3", "memory    bind 1,3"]


def test_weighted_interleave_reaches_the_command():
    if not Path("/sys/kernel/mm/mempolicy/weighted_interleave").is_dir():
        done = zerosys("run", "-w", "0,1", "true")
        assert done.returncode == 125 and "this policy needs Linux 6.9" in done.stderr
        return
    done = zerosys("run", "-w", "0,1", "sh", "-c", SEEN)
    assert done.stdout.endswith("weighted interleave:0-1\n")


def test_hardware_tells_kinds(ours):
    told = zerosys("hardware", "--more").stdout
    assert "node 2 kind: no memory\n" in told and "node 3 kind: no cpus\n" in told
