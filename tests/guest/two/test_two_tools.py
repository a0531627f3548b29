"""On two nodes: numastat, memhog and migratepages beside Debian's; our own commands by where pages lie."""

import json
import mmap
import random
import subprocess
import sys

import pytest
from beside import alongside, as_tool, tells_the_same
from commands import zerosys
from cpusets import inside_group
from debian import tool
from hogs import memhog_line

from zerosys import placement
from zerosys.hugepages import pool

# An emulated machine takes seconds to start an interpreter.
pytestmark = pytest.mark.timeout(600)

HOLDER = """import mmap, os, sys, time
from zerosys import Bind
memory = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
Bind(int(sys.argv[1])).apply(memory)
memory.write(bytes(8 << 20))
print("ready", flush=True)
time.sleep(600)"""


@pytest.fixture
def holder():
    """A process with 8 MiB bound to node 0."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield str(process.pid)
        process.kill()


@pytest.mark.parametrize("argv", [[], ["-cmn"], ["-s1", "python"], ["-vz", "1"]])
def test_numastat_tells_the_same(argv, holder):
    tells_the_same([tool("numastat"), *argv], as_tool("numastat", *argv), slack=100)


def test_generated_memhog_lines_print_the_same_and_end_alike(tmp_path):
    file = tmp_path / "backing"
    file.write_bytes(bytes(26 << 20))
    dice = random.Random(2)
    chosen = [memhog_line(dice, [0, 1], str(file)) for _ in range(30)]
    for line, (theirs, ours) in zip(chosen, alongside("memhog", tool("memhog"), chosen), strict=True):
        assert (ours.status, ours.stdout) == (theirs.status, theirs.stdout), (line, theirs, ours)


def test_memhog_and_migratepages_in_a_cpuset_of_one_node_end_alike():
    with inside_group(cpuset_mems="1"):
        for tool_name, lines in (
            (
                "memhog",
                [["4k", "membind", nodes] for nodes in ("0", "1", "0-1", "all", "!0", "!1", "+0", "+1")],
            ),
            ("migratepages", [["0", "0", "1"], ["0", "1", "1"], ["0", "1", "0"], ["0", "all", "all"]]),
        ):
            for line, (theirs, ours) in zip(lines, alongside(tool_name, tool(tool_name), lines), strict=True):
                assert (ours.status, ours.stdout) == (theirs.status, theirs.stdout), (line, theirs, ours)
                assert ours.status == 0 or "cpuset" in ours.stderr or "may be used" in ours.stderr


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        ("membind", "1"),
        ("interleave", "0-1"),
        ("preferred-many", "1"),
        ("preferred", "0,1"),
    ],
)
def test_memhog_puts_pages_where_the_original_puts_them(policy, nodes):
    where = []
    for name, command in (("theirs", [tool("memhog")]), ("ours", as_tool("memhog"))):
        path = f"/dev/shm/{name}-{policy}"
        with open(path, "w+b") as file:
            file.truncate(4 << 20)
            done = subprocess.run([*command, f"-f{path}", "4m", policy, nodes], timeout=100)
            assert done.returncode == 0
            with mmap.mmap(file.fileno(), 4 << 20) as memory:
                bytes(memory[::4096])  # mapped, so that its pages are told
                where.append(dict(placement(memory).nodes))
    assert where[0] == where[1] and sum(where[1].values()) == 1024


@pytest.mark.parametrize("words", [[tool("migratepages")], as_tool("migratepages")])
def test_migratepages_moves_what_it_is_told_to(words, holder):
    before = placement(int(holder)).nodes
    assert before[0] >= 2048
    assert subprocess.run([*words, holder, "0", "1"], timeout=100).returncode == 0
    after = placement(int(holder)).nodes
    assert after[1] >= 2048 and after.get(0, 0) < before[0] - 2048


def test_migrate_tells_what_moved_and_what_did_not(holder):
    done = zerosys("migrate", holder, "0", "1", "--json", timeout=100)
    told = json.loads(done.stdout)
    assert done.stderr == "" and done.returncode == (1 if told["stayed"] else 0)
    now = placement(int(holder)).nodes
    assert {int(node): size for node, size in told["after"].items()} == {n: c * 4096 for n, c in now.items()}
    assert told["moved"] >= 8 << 20
    assert told["moved"] + told["stayed"] <= sum(told["before"].values())
    assert sum(one["bytes"] for one in told["left"]) <= told["stayed"]
    back = zerosys("migrate", holder, "1", "0", timeout=100)
    assert "moved" in back.stdout and "NODE  BEFORE  AFTER" in back.stdout


def test_stat_tells_policies_and_nodes(holder):
    [one] = json.loads(zerosys("stat", holder, "--json", timeout=100).stdout)["processes"]
    policies = {group["policy"]: group for group in one["policies"]}
    assert policies["bind:0"]["nodes"] == {"0": 8 << 20}
    assert set(one["nodes"]) <= {"0", "1"}
    head = zerosys("stat", holder, timeout=100).stdout.splitlines()[1]
    assert head.split() == ["MiB", "N0", "N1", "TOTAL", "MAPPINGS"]


def test_stat_counts_pages_of_a_pool_by_their_size():
    code = HOLDER.replace("MAP_ANONYMOUS)", "MAP_ANONYMOUS | 0x40000)")  # MAP_HUGETLB
    with subprocess.Popen([sys.executable, "-c", code, "1"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        [one] = json.loads(zerosys("stat", str(process.pid), "--json", timeout=100).stdout)["processes"]
        tells_the_same([tool("numastat"), str(process.pid)], as_tool("numastat", str(process.pid)))
        process.kill()
    sizes = {group["page_size"]: group["nodes"] for group in one["page_sizes"]}
    assert sizes[2 << 20] == {"1": 8 << 20}


def test_hugepages_are_reserved_and_given_back_on_one_node():
    before = {node: pool(node).total for node in (0, 1)}
    done = zerosys("hugepages", "reserve", "3", "--node", "1", "--size", "2MiB", timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert {node: pool(node).total for node in (0, 1)} == {0: before[0], 1: before[1] + 3}
    assert zerosys("hugepages", "give-back", "3", "--node", "1", timeout=100).returncode == 0
    assert {node: pool(node).total for node in (0, 1)} == before
    done = zerosys("hugepages", "reserve", "9999", "--node", "1", timeout=100)
    assert done.returncode == 1 and "granted and given back" in done.stderr
    assert pool(1).total == before[1]
    done = zerosys("hugepages", "reserve", "9999", "--node", "1", "--partial", timeout=100)
    granted = pool(1).total - before[1]
    assert done.returncode == 1 and f"node 1 granted {granted} of 9999 pages" in done.stderr
    assert zerosys("hugepages", "give-back", str(granted), "--node", "1", timeout=100).returncode == 0


def test_top_tells_of_both_nodes_and_of_a_process_by_node(holder):
    done = zerosys("top", "-n", "2", "-d", "0.1", "-p", "50", "--json", timeout=100)
    first, second = map(json.loads, done.stdout.splitlines())
    assert [node["node"] for node in second["nodes"]] == [0, 1]
    assert first["nodes"][0]["rates"] is None and second["nodes"][0]["rates"]["numa_hit"] >= 0
    mine = next(one for one in second["processes"] if str(one["pid"]) == holder)
    assert mine["nodes"]["0"] >= 8 << 20
