"""System V shared memory, thin: one call each, no segment left behind, no signal."""

import errno
import os
import subprocess

import pytest
from seccomp import Refuse, refused

from zerosys import _numa, _sysv

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def segment(tmp_path):
    """The number of a segment of 16 pages, removed at the end."""
    made = _sysv.shmget(_sysv.ftok(os.fsencode(tmp_path), 1), 16 * PAGE, _sysv.IPC_CREAT | 0o600)
    yield made
    _sysv.shm_remove(made)


def test_a_key_is_the_files_and_the_projects(tmp_path):
    name = os.fsencode(tmp_path)
    keys = {_sysv.ftok(name, project) for project in (0, 1, 200, 255)}
    assert len(keys) == 4 and min(keys) < 0  # a key may be negative
    assert _sysv.ftok(name, 256) == _sysv.ftok(name, 0)
    with pytest.raises(FileNotFoundError, match="ftok"):
        _sysv.ftok(b"/nonexistent", 0)


def test_a_segment_is_found_by_its_key_and_keeps_its_bytes(segment, tmp_path):
    assert _sysv.shmget(_sysv.ftok(os.fsencode(tmp_path), 1), 0) == segment
    assert _sysv.shm_size(segment) == 16 * PAGE
    with _sysv.Segment(segment) as mapped:
        assert mapped.size == 16 * PAGE and mapped.address % PAGE == 0
        listed = subprocess.run(["ipcs", "-m", "-i", str(segment)], capture_output=True, text=True).stdout
        assert "nattch=1" in listed
    mapped.close()
    assert mapped.address == 0
    with pytest.raises(ValueError, match="closed"):
        mapped.populate()


def test_only_the_pages_asked_for_come_to_be(segment):
    with _sysv.Segment(segment) as mapped:
        mapped.populate(offset=2 * PAGE, length=3 * PAGE)
        runs = _numa.node_runs(mapped.address, mapped.size, PAGE)
        node = _numa.getcpu()[1] if len(runs) == 3 and runs[1][1] < 0 else runs[1][1]
        assert runs == [(0, -errno.ENOENT), (2 * PAGE, node), (5 * PAGE, -errno.ENOENT)]
        for wrong in ({"offset": 17 * PAGE}, {"length": 17 * PAGE}, {"offset": PAGE, "length": 16 * PAGE}):
            with pytest.raises(ValueError, match="must be 0 to"):
                mapped.populate(**wrong)


def test_policies_are_told_run_by_run(segment):
    (node,) = sorted(_numa.mems_allowed())[:1]
    with _sysv.Segment(segment) as mapped:
        _numa.mbind(mapped.address + 4 * PAGE, 4 * PAGE, _numa.MPOL_BIND, [node])
        _numa.mbind(mapped.address + 8 * PAGE, 4 * PAGE, _numa.MPOL_INTERLEAVE, [node])
        assert _numa.policy_runs(mapped.address, mapped.size, PAGE) == [
            (0, _numa.MPOL_DEFAULT, frozenset()),
            (4 * PAGE, _numa.MPOL_BIND, {node}),
            (8 * PAGE, _numa.MPOL_INTERLEAVE, {node}),
            (12 * PAGE, _numa.MPOL_DEFAULT, frozenset()),
        ]
        assert _numa.policy_runs(mapped.address, 0, PAGE) == _numa.node_runs(mapped.address, 0, PAGE) == []
        for runs in (_numa.policy_runs, _numa.node_runs):
            with pytest.raises(ValueError, match="step must be at least 1"):
                runs(mapped.address, mapped.size, 0)
    with pytest.raises(OSError) as refusal:
        _numa.policy_runs(0, PAGE, PAGE)
    assert refusal.value.errno == errno.EFAULT


def test_refusals_name_the_call(segment):
    with pytest.raises(FileNotFoundError, match="shmget"):
        _sysv.shmget(0x7EED1234, 0)
    with pytest.raises(OSError, match="shmget"):
        _sysv.shmget(0x7EED1234, 0, _sysv.IPC_CREAT)
    for call in (_sysv.shm_size, _sysv.shm_remove, _sysv.Segment):
        with pytest.raises(OSError, match="shmctl"):
            call(0x7FFFFFFF)
    done = refused(
        [Refuse("get_mempolicy", errno.EPERM)],
        "from zerosys import _numa\n"
        "for call in (_numa.next_node, lambda: _numa.policy_runs(0, 1, 1)):\n"
        "    try: call()\n"
        "    except PermissionError as refusal: print(refusal.strerror)",
    )
    assert done.stdout == "get_mempolicy: Operation not permitted\n" * 2


def test_many_attachments_leave_no_mapping(segment):
    def maps():
        with open("/proc/self/maps") as file:
            return sum("SYSV" in line for line in file)

    for _ in range(200):
        _sysv.Segment(segment).populate(length=PAGE)
        with _sysv.Segment(segment):
            pass
    assert maps() == 0
