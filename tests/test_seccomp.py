"""The filter that plays an older or stricter kernel does exactly what it is told."""

import errno
import platform
import struct
import sys

import pytest
from seccomp import CALLS, Refuse, program, refused

MEMFD = "import os; fd = os.memfd_create('x', {}); print('made')"


def test_a_refused_call_gets_the_errno():
    child = refused([Refuse("memfd_create", errno.ENOSYS)], MEMFD.format(0))
    assert child.returncode == 1
    assert "[Errno 38]" in child.stderr


def test_other_calls_are_untouched():
    child = refused([Refuse("splice", errno.EPERM), Refuse("tee", errno.ENOSYS)], MEMFD.format(0))
    assert (child.stdout, child.stderr, child.returncode) == ("made\n", "", 0)


@pytest.mark.parametrize(("flags", "made"), [(1, True), (2, False), (3, False)])
def test_a_rule_may_look_at_a_bit_of_an_argument(flags, made):
    child = refused([Refuse("memfd_create", errno.EINVAL, arg=1, bits=2)], MEMFD.format(flags))
    assert ("made" in child.stdout) is made
    assert ("[Errno 22]" in child.stderr) is not made


@pytest.mark.parametrize(("advice", "refusal"), [(3, ""), (4, "22"), (5, "1")])
def test_a_rule_may_want_an_argument_to_equal_a_value(advice, refusal):
    child = refused(
        [
            Refuse("madvise", errno.EINVAL, arg=2, equals=4),
            Refuse("madvise", errno.EPERM, arg=2, equals=5),
        ],
        f"import mmap\ntry: mmap.mmap(-1, 4096).madvise({advice})\nexcept OSError as e: print(e.errno)",
    )
    assert child.stdout.strip() == refusal


def test_the_filter_holds_for_children_too():
    code = (
        f"import subprocess, sys; sys.exit(subprocess.call([{sys.executable!r}, '-c', {MEMFD.format(0)!r}]))"
    )
    child = refused([Refuse("memfd_create", errno.ENOSYS)], code)
    assert child.returncode == 1
    assert "[Errno 38]" in child.stderr


def test_a_command_runs_as_it_would():
    child = refused([Refuse("tee", errno.ENOSYS)], ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (child.stdout, child.stderr, child.returncode) == ("out\n", "err\n", 7)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_lands_inside_the_program(machine):
    rules = [Refuse(call, 1, arg=1, bits=2) for call in CALLS]
    steps = list(struct.iter_unpack("=HBBI", program(rules, machine)))
    for at, (code, yes, no, _) in enumerate(steps):
        assert at + 1 + max(yes, no) < len(steps) or code == 6


def test_the_table_has_this_machine():
    assert platform.machine() in ("x86_64", "aarch64")
