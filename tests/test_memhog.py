"""Our memhog beside Debian's: the same stdout and exit status; on stderr ours says why."""

import errno
import random
import subprocess

import pytest
from beside import alongside, as_tool
from debian import tool
from hogs import memhog_line
from seccomp import Refuse, refused

from zerosys.machine import node_ids


def lines(batch, file):
    dice = random.Random(batch)
    return [memhog_line(dice, node_ids(), str(file)) for _ in range(150)]


@pytest.mark.parametrize("batch", range(2))
def test_generated_lines_print_the_same_and_end_alike(batch, tmp_path):
    file = tmp_path / "backing"
    file.write_bytes(bytes(32 << 20))
    chosen = lines(batch, file)
    for line, (theirs, ours) in zip(chosen, alongside("memhog", tool("memhog"), chosen), strict=True):
        assert (ours.status, ours.stdout) == (theirs.status, theirs.stdout), (line, theirs, ours)
        if "Policies:" not in ours.stdout:  # the original opens -f before it refuses the line
            assert bool(ours.stderr) == bool(theirs.stderr), (line, theirs, ours)
        assert "Traceback" not in ours.stderr


def test_the_file_is_filled_and_no_longer_than_it_was(tmp_path):
    file = tmp_path / "backing"
    file.write_bytes(bytes(3 << 20))
    done = subprocess.run(as_tool("memhog", f"-f{file}", "2m"), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, ".\n", "")
    assert file.read_bytes() == b"\xff" * (2 << 20) + bytes(1 << 20)


def test_a_file_that_is_too_short_is_an_error_and_no_signal(tmp_path):
    file = tmp_path / "backing"
    file.write_bytes(bytes(4096))
    theirs = subprocess.run([tool("memhog"), f"-f{file}", "1m"], capture_output=True, timeout=60)
    assert theirs.returncode < 0
    done = subprocess.run(as_tool("memhog", f"-f{file}", "1m"), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"memhog: mmap: {file} has 4096 bytes, not 1048576: make it longer first\n"


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_a_refused_policy_is_told_and_the_memory_filled(number):
    done = refused([Refuse("mbind", number)], as_tool("memhog", "1m", "membind", "0"))
    assert (done.returncode, done.stdout) == (0, ".\n")
    assert done.stderr.startswith("memhog: mbind: ") and "a seccomp filter guards this process" in done.stderr


def test_a_node_that_does_not_exist_is_named():
    done = subprocess.run(
        as_tool("memhog", "1m", "membind", "900"), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "<900> is invalid\n")
    assert "node 900 does not exist" in done.stderr
