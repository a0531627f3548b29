"""Our migratepages beside Debian's: the same stdout and exit status; on stderr ours says why."""

import errno
import random
import subprocess

import pytest
from beside import alongside, as_tool
from debian import tool
from hogs import migratepages_line
from seccomp import Refuse, refused

from zerosys.machine import node_ids


def test_generated_lines_print_the_same_and_end_alike():
    dice = random.Random(0)
    with subprocess.Popen(["sleep", "600"]) as target:
        pids = [str(target.pid)] * 6 + [
            "4194305",
            "1",
            "0",
            "2",
            "x",
            f"{target.pid}x",
            hex(target.pid),
            "",
            "-5",
        ]
        chosen = [migratepages_line(dice, node_ids(), pids) for _ in range(300)]
        outcomes = alongside("migratepages", tool("migratepages"), chosen)
        target.kill()
    for line, (theirs, ours) in zip(chosen, outcomes, strict=True):
        assert (ours.status, ours.stdout) == (theirs.status, theirs.stdout), (line, theirs, ours)
        assert bool(ours.stderr) == bool(theirs.stderr), (line, theirs, ours)
        assert "Traceback" not in ours.stderr


@pytest.mark.parametrize(
    ("argv", "stdout", "sentence"),
    [
        (["4194305", "0", "0"], "", "there is no process 4194305"),
        (["0", "0", "900"], "<900> is invalid\n", "node 900 does not exist"),
        (["0", "x", "0"], "<x> is invalid\n", "'x' in 'x' is neither numbers"),
        (["0", "0", ""], "", "no node to go to"),
    ],
)
def test_a_refusal_says_why(argv, stdout, sentence):
    done = subprocess.run(as_tool("migratepages", *argv), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, stdout)
    assert done.stderr.startswith("migratepages: ") and sentence in done.stderr


def test_another_users_process_is_refused():
    with subprocess.Popen(["setpriv", "--reuid=65534", "--clear-groups", "sleep", "60"]) as stranger:
        bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        done = subprocess.run(
            [*bare, *as_tool("migratepages", str(stranger.pid), "0", "0")],
            capture_output=True,
            text=True,
            timeout=60,
        )
        stranger.kill()
    assert done.returncode == 1 and "belongs to another user" in done.stderr


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_a_filter_that_refuses_is_named(number):
    done = refused([Refuse("migrate_pages", number)], as_tool("migratepages", "0", "0", "0"))
    assert done.returncode == 1 and "seccomp" in done.stderr
