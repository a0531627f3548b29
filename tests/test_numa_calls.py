"""The thin NUMA calls on whatever machine this is, one node included."""

import errno
import os
import signal
import subprocess
import sys
import threading

import pytest
from memory import PAGE, pages

from zerosys import _numa

ALLOWED = _numa.mems_allowed()
NODE = min(ALLOWED)
FOREIGN = _numa.max_node() + 1  # no such node


@pytest.fixture
def own_policy():
    """Put back the policy this thread had."""
    mode, nodes = _numa.get_mempolicy()
    yield
    _numa.set_mempolicy(mode, nodes)


@pytest.fixture
def own_cpus():
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    "mode",
    [
        _numa.MPOL_BIND,
        _numa.MPOL_PREFERRED,
        _numa.MPOL_INTERLEAVE,
        _numa.MPOL_PREFERRED_MANY,
        _numa.MPOL_BIND | _numa.MPOL_F_STATIC_NODES,
        _numa.MPOL_BIND | _numa.MPOL_F_RELATIVE_NODES,
        _numa.MPOL_BIND | _numa.MPOL_F_NUMA_BALANCING,
    ],
)
def test_policy_of_a_thread_reads_back_as_it_was_set(own_policy, mode):
    _numa.set_mempolicy(mode, {NODE})
    got, nodes = _numa.get_mempolicy()
    assert got == mode
    assert mode & _numa.MPOL_F_RELATIVE_NODES or nodes == {NODE}


def test_local_and_default_take_no_nodes(own_policy):
    for mode in (_numa.MPOL_LOCAL, _numa.MPOL_DEFAULT):
        _numa.set_mempolicy(mode)
        assert _numa.get_mempolicy() == (mode, frozenset())
    with pytest.raises(OSError, match="set_mempolicy"):
        _numa.set_mempolicy(_numa.MPOL_DEFAULT, [NODE])


def test_policy_holds_for_one_thread(own_policy):
    _numa.set_mempolicy(_numa.MPOL_BIND, {NODE})
    seen = []
    thread = threading.Thread(
        target=lambda: (_numa.set_mempolicy(_numa.MPOL_DEFAULT), seen.append(_numa.get_mempolicy()))
    )
    thread.start()
    thread.join()
    assert seen == [(_numa.MPOL_DEFAULT, frozenset())]
    assert _numa.get_mempolicy() == (_numa.MPOL_BIND, {NODE})


def test_kernel_drops_a_node_that_is_not_there_and_the_mask_tells():
    with pages(1) as memory:
        _numa.mbind(memory.address, PAGE, _numa.MPOL_BIND, {NODE, FOREIGN})
        assert _numa.get_mempolicy_at(memory.address) == (_numa.MPOL_BIND, {NODE})


@pytest.mark.parametrize("mode", [_numa.MPOL_BIND, _numa.MPOL_PREFERRED_MANY, _numa.MPOL_INTERLEAVE])
def test_mbind_and_read_back(mode):
    with pages(4) as memory:
        _numa.mbind(memory.address + PAGE, 2 * PAGE, mode, [NODE])
        assert _numa.get_mempolicy_at(memory.address)[0] == _numa.MPOL_DEFAULT
        assert _numa.get_mempolicy_at(memory.address + PAGE) == (mode, {NODE})
        assert _numa.get_mempolicy_at(memory.address + 3 * PAGE)[0] == _numa.MPOL_DEFAULT


def test_only_nodes_that_are_not_there_is_einval():
    with pages(1) as memory, pytest.raises(OSError) as refusal:
        _numa.mbind(memory.address, PAGE, _numa.MPOL_BIND, [FOREIGN])
    assert refusal.value.errno == errno.EINVAL


@pytest.mark.parametrize(
    "bad, kind",
    [(1024, ValueError), (-1, ValueError), (1 << 64, ValueError), (1.5, TypeError), ("0", TypeError)],
)
def test_nodes_are_exact_and_in_range(bad, kind):
    before = _numa.get_mempolicy()
    for call in (
        lambda: _numa.set_mempolicy(_numa.MPOL_BIND, [bad]),
        lambda: _numa.mbind(0, 0, _numa.MPOL_BIND, [bad]),
        lambda: _numa.migrate_pages(0, [bad], [NODE]),
        lambda: _numa.move_pages(0, [0], [bad]),
        lambda: _numa.move_range(0, 0, PAGE, bad),
        lambda: _numa.set_mempolicy_home_node(0, 0, bad),
        lambda: _numa.run_on_node(bad),
        lambda: _numa.run_on_node_mask([bad]),
        lambda: _numa.distance(bad, NODE),
        lambda: _numa.node_size(bad),
    ):
        with pytest.raises(kind):
            call()
    assert _numa.get_mempolicy() == before


def test_asking_where_pages_lie_touches_none():
    with pages(9) as memory:
        absent = {-errno.ENOENT: 9}
        assert _numa.count_statuses(memory.address, memory.mapped_size, PAGE) == absent
        assert _numa.count_statuses(memory.address, memory.mapped_size, PAGE) == absent
        _numa.get_mempolicy_at(memory.address)
        assert _numa.count_statuses(memory.address, memory.mapped_size, PAGE) == absent
        memory.touch()
        present = _numa.count_statuses(memory.address, memory.mapped_size, PAGE)
        assert sum(present.values()) == 9 and set(present) <= ALLOWED


def test_counts_pages_past_one_chunk_and_a_part_of_a_page():
    with pages(5000) as memory:
        memory.map[4999 * PAGE] = 1
        counts = _numa.count_statuses(memory.address, memory.mapped_size - 1, PAGE)
        assert counts.pop(-errno.ENOENT) == 4999
        assert list(counts.values()) == [1]
    assert _numa.count_statuses(0, 0, PAGE) == {}
    with pytest.raises(ValueError, match="step"):
        _numa.count_statuses(0, PAGE, 0)


def test_raw_move_pages_answers_for_each_address():
    with pages(2) as memory:
        memory.map[0] = 1
        there, absent, wild = _numa.move_pages(0, [memory.address, memory.address + PAGE, 0])
        assert there in ALLOWED
        assert absent == -errno.ENOENT and wild == -errno.EFAULT
        assert _numa.move_pages(0, [memory.address], [NODE], _numa.MPOL_MF_MOVE) == [NODE]
        with pytest.raises(OSError) as refusal:
            _numa.move_pages(0, [memory.address], [FOREIGN])
        assert refusal.value.errno == errno.ENODEV
        with pytest.raises(ValueError, match="2 addresses"):
            _numa.move_pages(0, [0, 0], [NODE])
    assert _numa.move_pages(0, []) == []


def test_move_range_and_migrate_pages_leave_everything_on_the_node():
    with pages(5000, touch=True) as memory:
        assert _numa.move_range(memory.address, memory.mapped_size, PAGE, NODE) == {NODE: 5000}
    assert _numa.migrate_pages(0, [NODE], [NODE]) == 0
    with pytest.raises(ProcessLookupError):
        _numa.migrate_pages(2**31 - 1, [NODE], [NODE])


def test_home_node_needs_a_policy_of_the_range():
    with pages(1) as memory:
        _numa.mbind(memory.address, PAGE, _numa.MPOL_BIND, [NODE])
        try:
            _numa.set_mempolicy_home_node(memory.address, PAGE, NODE)
        except OSError as refusal:
            assert refusal.errno == errno.ENOSYS  # Linux before 5.17
        else:
            with pytest.raises(OSError):
                _numa.set_mempolicy_home_node(memory.address, PAGE, NODE, 1)


def test_getcpu_names_a_cpu_and_node_of_ours(own_cpus):
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [cpu])
    assert _numa.getcpu() == (cpu, _numa.node_of_cpu(cpu))


def test_running_on_a_node_changes_the_affinity(own_cpus):
    node = _numa.getcpu()[1]
    _numa.run_on_node_mask([node])
    assert {_numa.node_of_cpu(cpu) for cpu in os.sched_getaffinity(0)} == {node}
    _numa.run_on_node(node)
    with pytest.raises(ValueError, match="does not exist"):
        _numa.run_on_node(FOREIGN)
    with pytest.raises(OSError, match="no CPU"):
        _numa.run_on_node_mask([])


def test_queries_answer_and_refuse():
    assert _numa.available() is True
    assert _numa.distance(NODE, NODE) == 10
    total, free = _numa.node_size(NODE)
    assert 0 < free < total
    for cpu in (-1, 2**31 - 1):
        with pytest.raises(OSError) as refusal:
            _numa.node_of_cpu(cpu)
        assert refusal.value.errno == errno.EINVAL
    for call in (_numa.node_size, lambda node: _numa.distance(node, NODE)):
        with pytest.raises(ValueError, match="does not exist"):
            call(FOREIGN)


@pytest.mark.untraced
def test_ctrl_c_ends_a_long_count():
    """A handler that raises is heard between two chunks, while pages are counted without the GIL."""

    class Stop(Exception):
        pass

    def stop(signum, frame):
        raise Stop

    # not SIGALRM, which is the test runner's own clock
    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        with pytest.raises(Stop):
            _numa.count_statuses(0, 1 << 46, PAGE)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_the_written_flags_are_the_kernels():
    from zerosys import flags

    for kind, prefix in (
        (flags.PolicyMode, "MPOL_"),
        (flags.PolicyFlag, "MPOL_F_"),
        (flags.MoveFlag, "MPOL_MF_"),
    ):
        for member in kind:
            assert member == getattr(_numa, prefix + member.name)


def test_flags_do_not_load_libnuma():
    code = "import zerosys.flags, zerosys.errors; print('libnuma' in open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
