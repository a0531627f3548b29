"""numactl's command lines, and its grammar of nodes, on four nodes: as Debian's."""

import subprocess

import debian
import grammar
import libnuma
import pytest
from beside import alongside, as_tool, tells_the_same
from commands import installed, zerosys
from cpusets import inside_group
from differential import Lines, differences, excuse, told, without_turn
from grammar import Machine

from zerosys import node_set, topology

NODES, CPUS = list(range(4)), list(range(8))


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("bin"), "numactl") / "numactl"


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100)


@pytest.mark.timeout(600)
def test_generated_lines_mean_the_same():
    assert differences(Lines(NODES, CPUS, 5), 30) == []


@pytest.mark.timeout(600)
def test_generated_lines_mean_the_same_where_cpus_and_nodes_are_confined():
    def refuse_less(line, nodes):
        inverted = "inverted beside a cpuset" if any("!" in word for word in line) else None
        return inverted or excuse(line, nodes)

    with inside_group(cpuset_cpus="2-5"):
        assert differences(Lines(NODES, CPUS[2:6], 6), 12, refuse_less) == []


@pytest.mark.parametrize("option", ["-H", "-s"])
def test_what_is_told_is_numactls_to_the_byte(ours, option):
    assert told(ours, option) == told(debian.tool("numactl"), option)


def test_show_in_every_state_is_numactls_to_the_byte(ours):
    for options in ("-i 1-3", "-m 0,2", "-b -m 1,3", "-p 3", "-P 0,2-3", "-N 2-3", "-C 4 -m !0", "-i +1-2"):
        theirs, mine = (run(numactl, *options.split(), "-s") for numactl in (debian.tool("numactl"), ours))
        assert mine.returncode == theirs.returncode, options
        assert without_turn(mine.stdout) == without_turn(theirs.stdout), options


@pytest.mark.parametrize("kind", ["nodes", "cpus"])
def test_every_difference_of_the_grammar_has_a_name(kind):
    machine = topology()
    if kind == "nodes":
        usable = Machine(frozenset(machine.nodes), machine.all_nodes, libnuma.nodes("all", allowed_only=True))
        found = grammar.compared(4000, lambda text: libnuma.nodes(text, allowed_only=True), usable)
    else:
        usable = Machine(machine.online_cpus, machine.allowed_cpus, libnuma.cpus("all", allowed_only=True))
        found = grammar.compared(4000, lambda text: libnuma.cpus(text, allowed_only=True), usable)
    assert found.get("", []) == [] and None in found


def test_relative_nodes_are_counted_in_what_may_be_used():
    assert node_set("+1,3") == {1, 3} and node_set("!0-1") == {2, 3}
    with inside_group(cpuset_mems="0,2-3"):
        assert node_set("+1-2") == {2, 3} and node_set("!2") == {0, 3} and node_set("all") == {0, 2, 3}


def test_weighted_interleaving_reaches_the_command():
    seen = "sed 's/ file=.*//; s/[^ ]* //; q' /proc/self/numa_maps"
    done = zerosys("run", "--weighted-interleave", "0,2-3", "sh", "-c", seen)
    assert (done.returncode, done.stdout) == (0, "weighted interleave:0,2-3\n")


@pytest.mark.parametrize("argv", [[], ["-cmn"], ["-s2"], ["-vz", "1"]])
def test_numastat_tells_the_same(argv):
    tells_the_same([debian.tool("numastat"), *argv], as_tool("numastat", *argv), slack=100)


def test_memhog_and_migratepages_end_alike():
    hogs = [
        ["64k", *words] for words in (("membind", "0,3"), ("interleave", "!1"), ("preferred-many", "+2-3"))
    ]
    moves = [["0", *nodes] for nodes in (("0,1", "2,3"), ("!3", "3"), ("all", "0-3"), ("0", "4"))]
    for tool, lines in (("memhog", hogs), ("migratepages", moves)):
        for line, (theirs, mine) in zip(lines, alongside(tool, debian.tool(tool), lines), strict=True):
            assert (mine.status, mine.stdout) == (theirs.status, theirs.stdout), (line, theirs, mine)
