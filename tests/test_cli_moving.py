"""zerosys migrate and zerosys hugepages on any machine: what they refuse, and that they say why."""

import errno
import json
import os
import subprocess
import sys

import pytest
from commands import zerosys
from seccomp import Refuse, refused
from trees import write_tree

from zerosys.hugepages import pools


def failing(*arguments):
    done = zerosys(*arguments)
    assert done.stdout == "" and "Traceback" not in done.stderr and "[Errno" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["self", "0", "900"], 1, "node 900 does not exist; this machine's nodes: "),
        (["self", "x", "0"], 1, "'x' in 'x' is neither numbers, nor all"),
        (["self", "0", ""], 1, "empty set of nodes"),
        (["4194305", "0", "0"], 1, "there is no process 4194305"),
        (["x", "0", "0"], 2, "'x' is no process's number, nor self"),
        (["self", "0"], 2, "required: TO"),
    ],
)
def test_migrate_refuses_with_a_sentence(arguments, status, sentence):
    ended, said = failing("migrate", *arguments)
    assert ended == status and sentence in said


def test_migrate_of_another_users_process_is_refused():
    with subprocess.Popen(["setpriv", "--reuid=65534", "--clear-groups", "sleep", "60"]) as stranger:
        bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m", "zerosys"]
        done = subprocess.run(
            [*bare, "migrate", str(stranger.pid), "0", "0"], capture_output=True, text=True, timeout=60
        )
        stranger.kill()
    assert (done.returncode, done.stdout) == (1, "") and "belongs to another user" in done.stderr


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_migrate_names_the_filter_that_refuses(number):
    done = refused(
        [Refuse("migrate_pages", number)], [sys.executable, "-m", "zerosys", "migrate", "self", "0", "0"]
    )
    assert done.returncode == 1 and "seccomp filter" in done.stderr and "migrate_pages" in done.stderr


def test_migrate_to_where_it_is_moves_nothing_and_says_so():
    told = json.loads(zerosys("migrate", "self", "0", "0", "--json").stdout)
    assert (told["moved"], told["stayed"], told["left"]) == (0, 0, [])
    assert "moved 0.0 MiB, stayed 0.0 MiB" in zerosys("migrate", "self", "0", "0").stdout


def test_without_a_node_directory_there_is_one_node():
    hidden = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs none /sys/devices/system/node && exec "$@"',
        "sh",
    ]
    outcomes = {}
    for line in ("stat self --json", "top --json", "migrate self 0 0 --json", "hugepages --json"):
        command = [*hidden, sys.executable, "-m", "zerosys", *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), line
        outcomes[line.split()[0]] = json.loads(done.stdout)
    [node] = outcomes["top"]["nodes"]
    assert node["node"] == 0 and node["memory_total"] > 0 and node["counters"] == {}
    assert {one["node"] for one in outcomes["hugepages"]["pools"]} <= {0}


def test_hugepages_lists_each_pool():
    listed = json.loads(zerosys("hugepages", "--json").stdout)["pools"]
    assert listed == json.loads(zerosys("hugepages", "show", "--json").stdout)["pools"]
    assert listed == json.loads(zerosys("hugepages", "--json", "show").stdout)["pools"]
    assert {(one["node"], one["size"]) for one in listed} == {
        (node, size) for node, sizes in pools().items() for size in sizes
    }
    assert len(zerosys("hugepages").stdout.splitlines()) == 1 + len(listed)


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["reserve", "1", "--node", "900"], 1, "node 900 does not exist"),
        (["reserve", "1", "--node", "0", "--size", "3MiB"], 1, "no pages of 3 MiB in pools (sizes: "),
        (["give-back", "99999999", "--node", "0"], 1, "99999999 pages to give back, and"),
        (["reserve", "-1", "--node", "0"], 2, "'-1' is no count, 0 to"),
        (["reserve", "x", "--node", "0"], 2, "'x' is no count, 0 to"),
        (["reserve", "9" * 5000, "--node", "0"], 2, "is no count, 0 to 9223372036854775807"),
        (["reserve", "9" * 18, "--node", "0"], 1, "of node 0, 0 granted and given back"),
        (["reserve", "1"], 2, "required: --node"),
        (["take", "1"], 2, "invalid choice: 'take'"),
    ],
)
def test_hugepages_refuses_with_a_sentence(arguments, status, sentence):
    ended, said = failing("hugepages", *arguments)
    assert ended == status and sentence in said


def test_who_may_not_set_a_pool_is_told_so():
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    script = 'mount -o remount,bind,ro /sys && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", f"mount --bind /sys /sys && {script}", "sh", *drop]
    done = subprocess.run(
        [*command, sys.executable, "-m", "zerosys", "hugepages", "reserve", "1", "--node", "0"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "sysfs is mounted read-only" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["reserve", "3", "--node", "0-1"], ["6", "6"]),
        (["reserve", "1", "--node", "0-2"], ["6", "6"]),
        (["give-back", "4", "--node", "0-1"], ["6", "6"]),
        (["give-back", "2", "--node", "0"], ["4", "6"]),
    ],
)
def test_hugepages_of_several_nodes_are_set_on_all_or_on_none(tmp_path, arguments, left):
    """Node 0 takes any number; node 1's cannot be opened for writing; node 2 has no pools."""
    files = {
        "online": "0-2\n",
        **{f"node{node}/meminfo": f"Node {node} MemTotal: 99999 kB\n" for node in (0, 1, 2)},
    }
    for node in (0, 1):
        folder = f"node{node}/hugepages/hugepages-2048kB"
        files |= {
            f"{folder}/nr_hugepages": "6",
            f"{folder}/free_hugepages": "6",
            f"{folder}/surplus_hugepages": "0",
        }
    nodes = write_tree(tmp_path, files)
    script = (
        'mount --bind "$0" /sys/devices/system/node'
        " && mount -o remount,ro,bind /sys/devices/system/node"
        ' && mount --bind "$0/node0" /sys/devices/system/node/node0'
        ' && exec "$@"'
    )
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        script,
        str(nodes),
        sys.executable,
        "-m",
        "zerosys",
        "hugepages",
    ]
    done = subprocess.run(
        [*command, *arguments, "--size", "2MiB"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == ("0-1" in arguments or "0-2" in arguments), done.stderr
    told = [(nodes / f"node{node}/hugepages/hugepages-2048kB/nr_hugepages").read_text() for node in (0, 1)]
    assert told == left
