"""Whole processes: their mappings, where their pages lie, and moving them, on whatever machine this is."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from memory import PAGE, pages
from needs import need
from seccomp import Refuse, refused

from zerosys import PlacementError, _numa, migrate, placement, read_numa_maps
from zerosys.numa_maps import bytes_by_node, parse_range
from zerosys.policy import Interleave

ROOT = Path(__file__).parent.parent
NODE = min(_numa.mems_allowed())
FOREIGN = _numa.max_node() + 1
HOLDER = """
import mmap, sys
memory = mmap.mmap(-1, 2000 * mmap.PAGESIZE)
memory[:] = bytes([1]) * len(memory)
print(flush=True)
sys.stdin.read()
"""


def holder(**options):
    """A process that holds 2,000 pages until its input is closed."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )
    child.stdout.readline()
    return child


def gone(child):
    child.stdin.close()
    child.stdout.close()
    child.wait()


def test_the_pages_of_another_process_are_counted():
    child = holder()
    try:
        where = placement(child.pid)
        assert sum(where.nodes.values()) == where.pages > 2000 and where.page_size == PAGE
        assert where.all_on(frozenset(where.nodes))
        # the kernel's other walk over the same page tables
        lines = Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()
        resident = next(int(line.split()[1]) * 1024 // PAGE for line in lines if line.startswith("Rss:"))
        assert abs(where.pages - resident) <= 64
    finally:
        gone(child)
    with pytest.raises(ProcessLookupError, match=f"no process {child.pid}"):
        placement(child.pid)


def test_each_mapping_of_ours_tells_its_policy_and_its_pages_as_move_pages_does():
    with pages(500) as memory:
        Interleave(NODE).apply(memory)
        memory.map[: 300 * PAGE] = bytes(300 * PAGE)
        [mapped] = [one for one in read_numa_maps(0) if one.address == memory.address]
        assert mapped.policy == f"interleave:{NODE}" and mapped.page_size == PAGE
        assert mapped.nodes == placement(memory).nodes and sum(mapped.nodes.values()) == 300
        assert mapped.counts["dirty"] == 300
        assert f"{memory.address:#x} interleave" in repr(mapped)


def test_heap_stack_and_files_are_told_by_their_use(tmp_path):
    odd = tmp_path / "a name with\nblanks, = and \\ in it"
    odd.write_bytes(bytes(PAGE))
    with open(odd, "rb") as file, mmap.mmap(file.fileno(), PAGE, prot=mmap.PROT_READ) as memory:
        assert memory[0] == 0
        told = list(read_numa_maps(os.getpid()))
        assert str(odd) in {one.file for one in told}
    assert {"heap", "stack", "file", "other"} == {one.use for one in told}
    assert all(one.file is None or one.use == "file" for one in told)


def test_what_is_summed_up_is_what_the_mappings_tell():
    child = holder()
    try:
        told = [one.nodes[node] * one.page_size for one in read_numa_maps(child.pid) for node in one.nodes]
        assert sum(bytes_by_node(child.pid).values()) == sum(told) > 2000 * PAGE
    finally:
        gone(child)


def test_a_terabyte_that_nobody_touched_costs_nothing():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    size = 1 << 40
    at = libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
    assert at != ctypes.c_void_p(-1).value
    try:
        [mapped] = [one for one in read_numa_maps(0) if one.address == at]
        assert mapped.nodes == {} and placement(0).pages < 1 << 22
    finally:
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))


@pytest.mark.parametrize(
    "policy, rest, told",
    [
        ("default", "", (None, "other", {}, 0)),
        ("local", "", (None, "other", {}, 0)),
        ("bind:0-1", "heap anon=3 N0=1 N12=2 kernelpagesize_kB=4", (None, "heap", {0: 1, 12: 2}, 4096)),
        ("prefer (many):0,2", "stack anon=1 N2=1 kernelpagesize_kB=64", (None, "stack", {2: 1}, 65536)),
        ("weighted interleave:0-1", "N0=5 kernelpagesize_kB=4", (None, "other", {0: 5}, 4096)),
        (
            "interleave=static:1",
            "file=/a\\040b\\134n huge N1=4 kernelpagesize_kB=2048",
            ("/a b\\n", "file", {1: 4}, 2 << 20),
        ),
    ],
)
def test_reads_every_kernels_lines(policy, rest, told):
    mapped = parse_range(f"7f00 {policy} {rest}\n")
    assert (mapped.address, mapped.policy, mapped.huge) == (0x7F00, policy, "huge" in rest)
    assert (mapped.file, mapped.use, mapped.nodes, mapped.page_size) == told


def test_migrating_to_where_everything_is_leaves_nothing_behind():
    child = holder()
    try:
        before = placement(child.pid).nodes
        assert migrate(child.pid, NODE, NODE) == 0
        assert migrate(0, "all", "all") == 0
        assert placement(child.pid).nodes.keys() == before.keys()
    finally:
        gone(child)
    with pytest.raises(ProcessLookupError, match=f"migrate_pages: there is no process {child.pid}"):
        migrate(child.pid, NODE, NODE)


def test_unknown_nodes_are_refused_before_the_call():
    for old, new in ((FOREIGN, NODE), (NODE, FOREIGN)):
        with pytest.raises(PlacementError, match=f"node {FOREIGN} does not exist"):
            migrate(0, old, new)


def test_another_users_process_is_an_error_with_the_remedy():
    need("root", None if os.geteuid() == 0 else "only root can become another user")
    child = holder()
    code = f"""
import os, sys
from zerosys import migrate, placement
os.setgid(65534); os.setuid(65534)
for call, args in ((placement, [{child.pid}]), (migrate, [{child.pid}, {NODE}, {NODE}])):
    try:
        call(*args)
    except PermissionError as refusal:
        print(type(refusal).__name__, refusal.errno, refusal)
    except OSError as refusal:
        print(type(refusal).__name__, refusal.errno, refusal)
"""
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    finally:
        gone(child)
    assert done.stderr == ""
    looked, moved = done.stdout.splitlines()
    assert looked.startswith(f"PlacementError {errno.EACCES}") and "CAP_SYS_PTRACE" in looked
    assert moved.startswith(f"PlacementError {errno.EPERM}") and "CAP_SYS_NICE" in moved


def test_a_filter_that_refuses_to_migrate_is_named():
    code = f"""
from zerosys import migrate
try:
    migrate(0, {NODE}, {NODE})
except OSError as refusal:
    print(type(refusal).__name__, refusal)
"""
    done = refused([Refuse("migrate_pages", errno.EPERM)], code)
    assert (
        done.stdout.startswith("PlacementError [Errno 1] migrate_pages") and "seccomp filter" in done.stdout
    )


def test_a_process_that_is_killed_while_it_is_looked_at_is_gone_and_nothing_else():
    for turn in range(30):
        child = holder()
        seen = []
        try:
            for mapped in read_numa_maps(child.pid):
                seen.append(mapped)
                if len(seen) == 1 + turn:
                    child.kill()
            placement(child.pid)
        except ProcessLookupError:
            pass
        finally:
            gone(child)
        assert seen


def test_looking_holds_nothing_open_even_if_it_is_left_in_the_middle():
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(200):
        next(iter(read_numa_maps(0)))
        placement(0)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_zombie_is_told_to_have_no_memory():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        with pytest.raises(
            PlacementError, match=f"process {child.pid} has no memory .Z .zombie.*: it is a zombie"
        ):
            migrate(child.pid, NODE, NODE)
    finally:
        child.wait()
