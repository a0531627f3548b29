"""numactl's command lines on two nodes: masks, policies, output and codes are Debian's numactl's."""

import re
import subprocess
from pathlib import Path

import debian
import pytest
from commands import installed
from cpusets import inside_group
from differential import Lines, differences, excuse, told, without_turn

from zerosys import _sysv


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("bin"), "numactl") / "numactl"


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100, **options)


@pytest.mark.timeout(600)
def test_generated_lines_mean_the_same():
    assert differences(Lines([0, 1], [0, 1], 2), 40) == []


def test_generated_lines_mean_the_same_in_a_cpuset_of_all():
    with inside_group(cpuset_mems="0-1", cpuset_cpus="0-1"):
        assert differences(Lines([0, 1], [0, 1], 3), 10) == []


def test_generated_lines_mean_the_same_where_cpus_are_confined():
    with inside_group(cpuset_cpus="1"):
        assert differences(Lines([0, 1], [1], 4), 15, refuse_less) == []


def refuse_less(line, nodes):
    """In a cpuset numactl turns its sets round within all CPUs, and then meets the cpuset."""
    inverted = "inverted beside a cpuset" if any("!" in word for word in line) else None
    return inverted or excuse(line, nodes)


@pytest.mark.parametrize("option", ["-H", "-s"])
def test_what_is_told_is_numactls_to_the_byte(ours, option):
    assert told(ours, option) == told(debian.tool("numactl"), option)


def test_show_in_every_state_is_numactls_to_the_byte(ours):
    for options in ("-i 0,1", "-m 1", "-m 0,1", "-b -m 0,1", "-p 1", "-P 0,1", "-l", "-N 1", "-C 0 -m 1"):
        theirs, mine = (run(numactl, *options.split(), "-s") for numactl in (debian.tool("numactl"), ours))
        assert mine.returncode == theirs.returncode, options
        assert without_turn(mine.stdout) == without_turn(theirs.stdout), options


# --- shared memory: as numactl's, and where it refuses wrongly, as it was meant -------------------


@pytest.fixture(params=["file", "shm", "huge"])
def memory(request, tmp_path):
    """The options that name a piece of shared memory of 8 MiB, which is gone afterwards."""
    if request.param == "file":
        path = Path("/dev/shm/test-numactl")
        yield [f"--file={path}"]
        path.unlink(missing_ok=True)
        return
    key = tmp_path / "key"
    key.touch()
    yield [*(["--huge"] if request.param == "huge" else []), f"--shm={key}"]
    found = _sysv.shmget(_sysv.ftok(bytes(key), 0), 0)
    _sysv.shm_remove(found)


def both(line, memory, ours):
    return [
        run(numactl, *line[0].split(), *memory, *line[1].split())
        for numactl in (debian.tool("numactl"), ours)
    ]


def placeless(done):
    """What was said, without the addresses at which each has the memory, and the blank line of a refusal."""
    return re.sub(r"verify [0-9a-f]+\(", "verify (", done.stdout).strip("\n")


def test_policies_of_shared_memory_are_set_verified_and_dumped(ours, memory):
    size = "--length=8m"
    for line in (
        (size, "--interleave=0,1 --verify --dump"),
        (size, "--membind=1 --verify --dump --dump-nodes"),
        (size, "--strict --interleave=0,1"),
        (size, "--localalloc --touch --dump"),
        (size, "--dump-nodes"),
        ("", "--length 4m"),
        (size, "--touch true"),
        (size, "--verify"),
    ):
        theirs, mine = both(line, memory, ours)
        assert (mine.returncode, placeless(mine)) == (theirs.returncode, placeless(theirs)), (
            line,
            mine.stderr,
        )


def test_a_part_of_shared_memory_can_be_bound_and_verified(ours, memory):
    """numactl takes an offset for one beyond the part's length."""
    assert run(ours, "--length=8m", *memory, "--dump").stdout == ""
    done = run(
        ours, "--offset=2m", "--length=4m", *memory, "--membind=1", "--verify", "--dump", "--dump-nodes"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "0000000000200000-0000000000600000: bind : 1 "
    assert done.stdout.splitlines()[1] == "0000000000200000-0000000000600000: 1"
    done = run(ours, "--length=2m", "--offset=6m", *memory, "--preferred=0", "--verify", "--dump")
    assert done.stdout == "0000000000600000-0000000000800000: preferred : 0 \n" and not done.stderr
    if "--huge" not in memory:
        assert "bind : 1" in run(ours, *memory, "--dump").stdout
    done = run(ours, "--length=2m", *memory, "--preferred-many=0,1", "--dump")
    assert done.stdout == "0000000000000000-0000000000200000: preferred-many : 0 1 \n"


def test_verifying_finds_pages_that_lie_elsewhere(ours):
    path = Path("/dev/shm/test-numactl-wrong")
    try:
        run(ours, "--length=64k", f"--file={path}", "--membind=0", "--touch")
        done = run(ours, "--length=64k", f"--file={path}", "--membind=1", "--verify")
        assert done.returncode == 1 and "unexpected node 0\nexpected: 1 \n" in done.stdout
        done = run(ours, "--length=64k", f"--file={path}", "--touch", "--strict", "--membind=1")
        assert done.returncode == 1 and "pages lie on other nodes" in done.stderr
        done = run(ours, "--length=64k", f"--file={path}", "--interleave=0,1", "--verify")
        assert done.returncode == 1 and "expected interleave node 1, got 0" in done.stdout
    finally:
        path.unlink(missing_ok=True)
