"""Which calls of NUMA work here, and the causes of those that do not, told apart."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from counts import nothing_left
from needs import need
from seccomp import POLICY_CALLS, Refuse, refused

from zerosys import _numa, capabilities
from zerosys.abilities import _CALLS, _cause
from zerosys.refusal import may_move_all

POLICY_NAMES = ("get_mempolicy", "set_mempolicy", "mbind", "page lookup", "move_pages", "migrate_pages")
ROOT = Path(__file__).parent.parent
TELL = """
from zerosys import capabilities
for name, one in capabilities().items():
    print(name, bool(one), one.errno, one.cause, one.remedy, sep="|")
"""


def told(done):
    assert done.stderr == ""
    return {
        name: (works == "True", int(number), cause, remedy)
        for name, works, number, cause, remedy in (line.split("|") for line in done.stdout.splitlines())
    }


def call(name):
    return next(one for one in _CALLS if one.name == name)


def test_what_works_is_what_real_calls_do_here():
    before = _numa.get_mempolicy(), os.sched_getaffinity(0)
    found = capabilities()
    assert (_numa.get_mempolicy(), os.sched_getaffinity(0)) == before
    for name in (
        "get_mempolicy",
        "set_mempolicy",
        "mbind",
        "page lookup",
        "move_pages",
        "migrate_pages",
        "numa_maps",
    ):
        assert found[name].works and (found[name].errno, found[name].cause) == (0, "")
    assert bool(found["move shared pages"]) == may_move_all()
    assert all(bool(one) or (one.errno and one.cause and one.remedy) for one in found.values())


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_a_filter_is_told_from_everything_else(number):
    found = told(refused([Refuse(name, number) for name in POLICY_CALLS], TELL))
    for name in POLICY_NAMES:
        works, got, cause, remedy = found[name]
        assert (works, got, cause) == (False, number, "seccomp")
        assert f"allow {call(name).syscall} in the seccomp profile" in remedy
    assert found["sched_setaffinity"][0] and found["numa_maps"][0]


def test_a_call_that_alone_is_filtered_alone_fails():
    found = told(refused([Refuse("migrate_pages", errno.EPERM)], TELL))
    filtered = [name for name, (_, _, cause, _) in found.items() if cause == "seccomp"]
    assert filtered == ["migrate_pages"]


def test_a_missing_right_is_told_from_a_filter():
    need("root", None if os.geteuid() == 0 else "only root can become another user")
    # first as root, so that everything is loaded that another user may not read
    code = "import os; from zerosys import capabilities; capabilities(); os.setgid(65534); os.setuid(65534)"
    code += TELL
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    found = told(done)
    assert found["move shared pages"][:3] == (False, errno.EPERM, "capability")
    assert "run with CAP_SYS_NICE" in found["move shared pages"][3]
    assert found["move_pages"][0] and found["mbind"][0]


def test_a_kernel_that_is_too_old_and_one_without_numa_are_named(monkeypatch):
    """Old kernels do not run here: the guest's has no weighted interleaving (tests/guest)."""
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "x", "5.10.0-9-amd64", "", "")))
    for name, number in (("weighted interleave", errno.EINVAL), ("set_mempolicy_home_node", errno.ENOSYS)):
        cause, remedy = _cause(call(name), number)
        assert cause == "kernel" and "; this is 5.10.0-9-amd64" in remedy
    assert _cause(call("get_mempolicy"), errno.ENOSYS) == ("build", "this kernel was built without it")
    assert _cause(call("mbind"), errno.EINVAL)[0] == "other"


def test_asking_leaves_nothing_behind():
    capabilities()
    with nothing_left():
        for _ in range(20):
            capabilities()
