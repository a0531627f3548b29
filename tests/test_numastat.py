"""Our numastat beside Debian's: the same bytes and the same exit status, on machines made up at random."""

import os
import pty
import random
import re
import subprocess
import termios

import pytest
from beside import Case, as_tool, beside, tells_the_same
from commands import installed
from debian import tool

from zerosys.cli.numastat.system import COUNTERS, MEMINFO

# What the newest kernels tell and numastat has no row for.
UNKNOWN = ["SwapCached", "SecPageTables", "FileHugePages", "FilePmdMapped", "Unaccepted"]
NAMES = ["bash", "kworker/R-mm_percpu_wq", "Web Content", "(sd-pam)", "a" * 15, "x=y", "µ", "\udcff"]
KINDS = ["", " heap", " stack", " file=/usr/bin/x", " file=/anon_hugepage\\040(deleted) huge", " huge"]


def number(dice, highest):
    """Often 0, and else of any length."""
    return dice.choice((0, dice.randrange(1 << dice.randint(1, highest))))


def mapping(dice, nodes):
    counts = "".join(f" N{node}={number(dice, 30)}" for node in nodes if dice.random() < 0.7)
    policy = dice.choice(
        ["default", "bind:0-1", "prefer (many):0", "weighted interleave:0-1", "interleave:0"]
    )
    size = " kernelpagesize_kB=4" if counts else ""
    return f"{dice.getrandbits(47):x} {policy}{dice.choice(KINDS)} anon=3 dirty=1{counts}{size}\n"


def process(dice, pid, nodes):
    """The files of a process; now and then some are missing, or have nothing in them."""
    command = "\0".join(dice.sample(["python", "-m", "mod", "--x=1", "x y", ""], dice.randint(1, 4))) + "\0"
    files = {
        "status": f"Name:\t{dice.choice(NAMES)}\nUmask:\t0022\n",
        "cmdline": dice.choice([command, command, ""]),
        "numa_maps": "".join(mapping(dice, nodes) for _ in range(dice.choice([0, 1, 3, 9]))),
    }
    missing = {name for name in ("status", "numa_maps") if dice.random() < 0.07}
    return {f"proc/{pid}/{name}": text for name, text in files.items() if name not in missing}


def machine(dice):
    nodes = list(range(dice.choice([1, 1, 2, 3, 4, 12])))
    if dice.random() < 0.2:  # numbers with gaps
        nodes = sorted(dice.sample(range(20), len(nodes)))
    rows = [name for name in MEMINFO + UNKNOWN if dice.random() < dice.choice([0.5, 0.95])]
    files = {"proc/meminfo": f"MemTotal: 99 kB\nHugepagesize:    {dice.choice([2048, 1048576])} kB\n"}
    for node in nodes:
        blank = dice.random() < 0.2
        told = {name: 0 if blank else number(dice, 26) for name in rows}
        files[f"node/node{node}/meminfo"] = "".join(
            f"Node {node} {name + ':':<15}{value:>9}{'' if name.startswith('HugePages') else ' kB'}\n"
            for name, value in told.items()
        )
        files[f"node/node{node}/numastat"] = "".join(
            f"{name} {0 if blank else number(dice, 50)}\n" for name in COUNTERS
        )
    for pid in dice.sample(range(1, 5000), dice.choice([1, 2, 3, 8])):
        files |= process(dice, pid, nodes)
    return nodes, files


def line(dice, nodes, files):
    pids = sorted({name.split("/")[1] for name in files if re.match("proc/[0-9]", name)})
    letters = dice.sample("cmnvz", dice.randint(0, 5))
    if dice.random() < 0.4:
        # The original sorts by another column than the asked one where the numbers have gaps.
        without_gaps = [*map(str, nodes), "01"] if nodes == list(range(len(nodes))) else []
        letters.append("s" + dice.choice(["", "", *without_gaps, "99", "x", "-1"]))
    apart = [f"-{letter}" for letter in letters]
    words = ["-" + "".join(letters)] if letters and dice.random() < 0.5 else apart
    for _ in range(dice.choice([0, 0, 1, 1, 2, 4])):
        whom = dice.choice([*pids, *pids, "python", "mod --", "kworker", "no such thing", "-", "99999", ""])
        ways = [["-p", whom], [f"-p{whom}"] if whom else ["-p", whom], ["--", whom]]
        words += dice.choice(ways[:2] if "--" in words else ways)
    return words


def case(seed):
    dice = random.Random(seed)
    nodes, files = machine(dice)
    width = dice.choice(
        [None, None, None, "80", "40", "33", "132", "1", "0", "x", " 60z", "-3", "9999999999"]
    )
    return Case(line(dice, nodes, files), files, {} if width is None else {"NUMASTAT_WIDTH": width})


def agree(cases):
    """Whether both say the same of each case; the first where they do not is shown whole."""
    for one, (theirs, ours) in zip(cases, beside("numastat", tool("numastat"), cases), strict=True):
        assert ours == theirs, one


@pytest.mark.parametrize("batch", range(3))
def test_generated_lines_on_generated_machines_give_the_same_bytes(batch):
    agree([case(batch * 1000 + number) for number in range(150)])


def test_equal_rows_are_sorted_into_the_same_order():
    def ties(dice):
        return {
            "proc/meminfo": "",
            "node/node0/numastat": "".join(f"{name} {dice.randrange(3) * 256}\n" for name in COUNTERS),
            "node/node0/meminfo": "".join(
                f"Node 0 {name}: {dice.randrange(3) * 1024} kB\n" for name in MEMINFO if "Huge" not in name
            ),
        }

    agree([Case(["-nms"], ties(random.Random(seed))) for seed in range(100)])


@pytest.mark.parametrize(
    "argv",
    [
        ["-?"], ["--help"], ["--he"], ["-V"], ["-V", "-x"], ["-x", "-V"], ["-x"], ["--version"], ["--help=3"],
        ["-p"], ["-mfoo"], ["-ww"], ["-h"], ["-mV"], ["0"], ["-p", ""], ["4294967303"], ["7", "7"], ["07"],
        ["123456789012345678901"], ["+7"], [" 7"], ["-", "-n"], ["7", "-n"], ["-p", "-n"], ["-p7x"],
        ["--", "-m"], ["9" * 5000], ["-p", "0" * 5000 + "7"],
    ],
)  # fmt: skip
def test_odd_lines_are_taken_and_refused_alike(argv):
    files = {
        "proc/meminfo": "Hugepagesize: 2048 kB\n",
        "node/node0/numastat": "numa_hit 1\n",
        "node/node0/meminfo": "Node 0 MemTotal: 5000 kB\n",
        "proc/7/status": "Name:\tseven\n",
        "proc/7/cmdline": "seven\0-n\0",
        "proc/7/numa_maps": "7f00 default N0=3\n",
    }
    agree([Case(argv, files), Case(argv, files, {"POSIXLY_CORRECT": "1"})])


@pytest.mark.parametrize("files", [{}, {"node/online": "0\n", "node/nodex/numastat": ""}])
@pytest.mark.parametrize("argv", [[], ["-m"], ["-p", "1"], ["nothing"]])
def test_a_machine_that_tells_of_no_node_is_told_so_and_ends_alike(argv, files):
    [(theirs, ours)] = beside("numastat", tool("numastat"), [Case(argv, files)])
    assert (ours.status, ours.stdout) == (theirs.status, theirs.stdout)
    assert ours.status == 1
    # The original goes on with the errno of another call.
    assert ours.stderr.split(": ")[0] == theirs.stderr.split(": ")[0]
    assert ours.stderr.endswith("/sys/devices/system/node lists no node\n")


@pytest.mark.parametrize(("argv", "missing"), [([], "numastat"), (["-n"], "numastat"), (["-m"], "meminfo")])
def test_a_node_whose_file_is_missing_is_named_alike(argv, missing):
    files = {"proc/meminfo": "", "node/node0/x": "", "node/node0/meminfo": "", "node/node0/numastat": ""}
    del files[f"node/node0/{missing}"]
    agree([Case(argv, files)])


def test_where_nodes_have_gaps_ours_sorts_by_the_node_that_was_asked_for():
    files = {"proc/meminfo": ""}
    for node, values in {2: (1, 2, 3), 6: (2, 3, 1), 9: (3, 1, 2)}.items():
        files[f"node/node{node}/numastat"] = "".join(
            f"{name} {value * 256}\n" for name, value in zip(COUNTERS, values, strict=False)
        )
    for node, first in {2: "Numa_Foreign", 6: "Numa_Miss", 9: "Numa_Hit"}.items():
        [(_, ours)] = beside("numastat", tool("numastat"), [Case([f"-ns{node}"], files)])
        assert ours.stdout.splitlines()[4].split()[0] == first


def test_long_command_lines_are_searched_to_their_end():
    files = {
        "proc/meminfo": "",
        "node/node0/x": "",
        "proc/7/status": "Name:\tjava\n",
        "proc/7/cmdline": "java\0" + "-cp\0" * 2000 + "org.example.Main\0",
        "proc/7/numa_maps": "7f00 default N0=256\n",
    }
    [(theirs, ours)] = beside("numastat", tool("numastat"), [Case(["example.Main"], files)])
    assert "Found no processes" in theirs.stdout
    assert "for PID 7 (java)" in ours.stdout and "Found" not in ours.stdout


@pytest.mark.parametrize("argv", [[], ["-n"], ["-m"], ["-mnz"], ["-mn", "1"], ["-v", "-p", "1"], ["-z", "2"]])
def test_on_this_machine_it_tells_the_same_but_for_what_moved_meanwhile(argv):
    tells_the_same([tool("numastat"), *argv], as_tool("numastat", *argv), slack=100)


def test_another_users_process_and_a_dead_one_are_told_of_and_are_no_failure():
    with subprocess.Popen(["setpriv", "--reuid=65534", "--clear-groups", "sleep", "60"]) as stranger:
        without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        for whom, cause in ((stranger.pid, "Permission denied"), (4194305, "No such file or directory")):
            for program in ([tool("numastat"), "-p", str(whom)], as_tool("numastat", "-p", str(whom))):
                done = subprocess.run([*without_rights, *program], capture_output=True, text=True, timeout=60)
                assert done.returncode == 0
                assert done.stderr == f"Can't read /proc/{whom}/numa_maps: {cause}\n"
                assert f"for PID {whom} (" in done.stdout and "Total" not in done.stdout
        stranger.kill()


def test_on_a_terminal_it_folds_to_the_terminals_width():
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (25, 40))
    assert subprocess.run(as_tool("numastat", "-n"), stdout=theirs, timeout=60).returncode == 0
    text = os.read(ours, 1 << 16).decode()
    os.close(theirs)
    os.close(ours)
    assert text.count("Numa_Hit") == 2 and max(map(len, text.splitlines())) <= 40


def test_nobody_who_reads_is_no_complaint():
    with subprocess.Popen(as_tool("numastat", "-m"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
        done.stdout.close()
        assert done.stderr.read() == b""
    assert done.returncode == 141


def test_the_entry_point_is_the_tool(tmp_path):
    folder = installed(tmp_path / "bin", "numastat", "zerosys-numastat")
    for name in ("numastat", "zerosys-numastat"):
        done = subprocess.run([folder / name, "-V"], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "numastat version: 20130723: Dec 26 2022\n")
