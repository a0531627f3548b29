"""Four nodes, one without memory (2), one without CPUs (3): the tools, and our own commands."""

import json
import mmap
import random
import subprocess
import sys

import pytest
from beside import alongside, as_tool, tells_the_same
from commands import zerosys
from debian import tool
from hogs import memhog_line, migratepages_line

from zerosys import placement

# An emulated machine takes seconds to start an interpreter.
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("argv", [[], ["-cmn"], ["-zs", "1"]])
def test_numastat_tells_the_same(argv):
    tells_the_same([tool("numastat"), *argv], as_tool("numastat", *argv), slack=100)


def test_generated_memhog_lines_print_the_same_and_end_alike(tmp_path):
    file = tmp_path / "backing"
    file.write_bytes(bytes(26 << 20))
    dice = random.Random(4)
    chosen = [memhog_line(dice, [0, 1, 2, 3], str(file)) for _ in range(30)]
    for line, (theirs, ours) in zip(chosen, alongside("memhog", tool("memhog"), chosen), strict=True):
        assert (ours.status, ours.stdout) == (theirs.status, theirs.stdout), (line, theirs, ours)


def test_generated_migratepages_lines_print_the_same_and_end_alike():
    dice = random.Random(5)
    with subprocess.Popen(["sleep", "600"]) as target:
        pids = [str(target.pid)] * 8 + ["4194305", "x", "0", "2"]
        chosen = [migratepages_line(dice, [0, 1, 2, 3], pids) for _ in range(30)]
        outcomes = alongside("migratepages", tool("migratepages"), chosen)
        target.kill()
    for line, (theirs, ours) in zip(chosen, outcomes, strict=True):
        assert (ours.status, ours.stdout) == (theirs.status, theirs.stdout), (line, theirs, ours)


def test_memhog_fills_the_node_that_has_memory_alone():
    path = "/dev/shm/hog"
    with open(path, "w+b") as file:
        file.truncate(4 << 20)
        done = subprocess.run(as_tool("memhog", f"-f{path}", "4m", "membind", "3"), timeout=100)
        assert done.returncode == 0
        with mmap.mmap(file.fileno(), 4 << 20) as memory:
            bytes(memory[::4096])
            assert placement(memory).all_on(3)


def test_a_node_without_memory_is_named():
    done = subprocess.run(
        as_tool("memhog", "4m", "membind", "2"), capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout) == (1, "<2> is invalid\n") and "node 2 has no memory" in done.stderr
    with subprocess.Popen(["sleep", "600"]) as target:
        done = zerosys("migrate", str(target.pid), "0", "2", timeout=100)
        target.kill()
    assert done.returncode == 1 and "node 2 has no memory" in done.stderr


def test_what_a_process_has_goes_to_the_node_without_cpus_and_is_told():
    code = "import time; memory = bytearray(b'x' * (8 << 20)); print('ready', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        told = json.loads(zerosys("migrate", str(process.pid), "0-1", "3", "--json", timeout=100).stdout)
        [one] = json.loads(zerosys("stat", str(process.pid), "--json", timeout=100).stdout)["processes"]
        process.kill()
    assert told["after"]["3"] >= 8 << 20
    assert one["nodes"]["3"] >= 8 << 20


def test_every_node_is_in_the_lists():
    pools = json.loads(zerosys("hugepages", "--json", timeout=100).stdout)["pools"]
    assert {one["node"] for one in pools} == {0, 1, 2, 3}
    sample = json.loads(zerosys("top", "--json", timeout=100).stdout)
    assert {one["node"]: bool(one["memory_total"]) for one in sample["nodes"]} == {
        0: True,
        1: True,
        2: False,
        3: True,
    }
