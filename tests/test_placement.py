"""Where pages lie, asked without touching, and moving them, on whatever machine this is."""

import errno
import math
import mmap
import os
import pickle

import pytest
from memory import PAGE, pages
from trees import node_files, write_tree

from zerosys import _numa, proof, topology
from zerosys._mmap import Mapping
from zerosys.errors import MoveTimeout, PlacementError
from zerosys.moving import move_to
from zerosys.policy import Bind, Preferred, policy_of
from zerosys.proof import verify
from zerosys.region import SharedRegion
from zerosys.selection import one_node
from zerosys.whereabouts import placement

NODE = min(_numa.mems_allowed())
FOREIGN = _numa.max_node() + 1


def test_untouched_pages_are_absent_and_stay_so():
    with pages(7) as memory:
        for _ in range(2):
            where = placement(memory)
            assert (where.nodes, where.absent, where.unmapped, where.unknown) == ({}, 7, 0, 0)
        memory.touch()
        where = placement(memory)
        assert sum(where.nodes.values()) == where.pages == 7
        assert where.all_on(frozenset(where.nodes)) and not where.all_on(FOREIGN)


def test_page_of_zeros_is_nobodys():
    with mmap.mmap(-1, 4 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        assert memory[PAGE] == 0  # reading maps the kernel's one page of zeros
        memory[2 * PAGE] = 1
        where = placement(memory)
        assert (sum(where.nodes.values()), where.absent, where.unmapped) == (1, 3, 0)


def test_pages_that_only_another_mapping_touched_are_unmapped_here():
    """FAULTS N7, and what a fresh attacher sees."""
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 5000 * PAGE)
        with mmap.mmap(fd, 5000 * PAGE) as mine, mmap.mmap(fd, 5000 * PAGE) as theirs:
            for page in (0, 1, 4999):
                theirs[page * PAGE] = 1
            where = placement(mine)
            assert (where.nodes, where.absent, where.unmapped) == ({}, 4997, 3)
            assert sum(placement(theirs).nodes.values()) == 3
            assert mine[4999 * PAGE] == 1
            where = placement(mine)
            assert (sum(where.nodes.values()), where.absent, where.unmapped) == (1, 4997, 2)
    finally:
        os.close(fd)


def test_any_buffer_has_a_placement():
    block = bytearray(10 * PAGE)
    assert sum(placement(block).nodes.values()) >= 10
    assert placement(b"").pages == 0
    assert placement(memoryview(block)[PAGE : PAGE + 1]).pages == 1
    for wrong in (3.5, True, None, "text"):
        with pytest.raises(TypeError):
            placement(wrong)


def test_moving_to_the_node_where_pages_are_leaves_them_there():
    with pages(9) as memory:
        memory.map[0] = 1
        where = move_to(memory, NODE)
        assert (where.nodes, where.absent) == ({NODE: 1}, 8)


def test_moving_in_time_slices_tells_where_to_go_on_and_reaches_the_end():
    with pages(3000) as memory:
        memory.map[: 3000 * PAGE] = bytes(3000 * PAGE)
        stops = []
        offset = 0
        while True:
            try:
                where = move_to(memory, NODE, timeout=0, offset=offset)
                break
            except MoveTimeout as up:
                assert up.errno == errno.ETIMEDOUT and up.pages == {NODE: (up.offset - offset) // PAGE}
                assert f"go on with offset={up.offset}" in str(up)
                offset = up.offset
                stops.append(offset // PAGE)
        assert stops == [1024, 2048]  # slices of 4 MiB
        assert sum(where.nodes.values()) == 3000
        with pytest.raises(ValueError, match=f"whole pages of {PAGE} bytes, up to {3000 * PAGE}, not 1"):
            move_to(memory, NODE, offset=1)


def test_a_node_may_be_named_as_in_every_other_place(tmp_path):
    with SharedRegion.create(3 * PAGE, pages="base") as region:
        assert region.move_to(f"{NODE}").nodes == move_to(region, [NODE]).nodes == {NODE: 3}
        assert move_to(region, "+0").nodes == {NODE: 3}
        for wrong in ("", "x", -1, [], 1.5):
            with pytest.raises((ValueError, TypeError)):
                move_to(region, wrong)
    assert one_node("+0") == NODE
    with pytest.raises(ValueError, match=r"one node is wanted, and \{0, 1\} means 0-1"):
        one_node({0, 1}, root=two_nodes(tmp_path))


def two_nodes(root):
    return write_tree(root, {**node_files(0, cpus="0", total=4), **node_files(1, cpus="", total=4)})


def test_a_spill_is_counted_by_node_and_balancing_is_named(monkeypatch, tmp_path):
    """The pages are real and lie here; the policy names a node that is elsewhere."""
    with SharedRegion.create(4 * PAGE, pages="base") as region:
        found = region.placement()
    told = verify(Preferred(FOREIGN), lambda: found)
    assert not told and told.spill == {NODE: 4} and told.misplaced == 4
    assert "NUMA balancing" not in told.reason or topology().balancing
    monkeypatch.setattr(proof, "topology", lambda: topology(balanced(tmp_path)))
    reason = verify(Preferred(FOREIGN), lambda: found).reason
    assert "NUMA balancing is on, which moves pages by itself" in reason
    assert verify(Bind(NODE), lambda: found).spill == {}


def balanced(root):
    return write_tree(root, {"proc/sys/kernel/numa_balancing": "1\n"})


def test_a_move_with_time_enough_is_whole():
    with pages(3000, touch=True) as memory:
        assert move_to(memory, NODE, timeout=3600).pages == 3000


def test_a_region_that_ran_out_of_time_keeps_its_policy():
    with SharedRegion.create(12 << 20, policy=Preferred(NODE), pages="base") as region:
        with pytest.raises(MoveTimeout) as up:
            region.move_to(NODE, timeout=0)
        assert region.policy == Preferred(NODE) == policy_of(region)
        assert region.move_to(NODE, timeout=60, offset=up.value.offset).nodes == {NODE: 3072}
        assert region.policy == Bind(NODE)


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        ({"timeout": -1}, ValueError, "timeout must be 0 seconds or more, not -1.0"),
        ({"timeout": math.nan}, ValueError, "timeout must be 0 seconds or more, not nan"),
        ({"timeout": -(10**400)}, ValueError, "timeout must be 0 seconds or more"),
        ({"timeout": "1"}, TypeError, "timeout must be seconds, a number, not '1'"),
        ({"timeout": True}, TypeError, "timeout must be seconds, a number, not True"),
        ({"offset": -PAGE}, ValueError, "offset must be whole pages"),
        ({"offset": 2**64}, ValueError, "offset must be whole pages"),
        ({"offset": PAGE + 1}, ValueError, "offset must be whole pages"),
        ({"offset": 1.5}, TypeError, "integer"),
    ],
)
def test_a_time_or_an_offset_that_is_none_is_refused(words, error, text):
    with pages(2, touch=True) as memory:
        with pytest.raises(error, match=text):
            move_to(memory, NODE, **words)
        assert move_to(memory, NODE, timeout=10**400, offset=2 * PAGE).nodes == {NODE: 2}


def test_the_end_of_the_time_survives_pickling():
    up = MoveTimeout(errno.ETIMEDOUT, "up", pages={0: 3}, offset=4096)
    again = pickle.loads(pickle.dumps(up))
    assert (again.errno, again.pages, again.offset) == (errno.ETIMEDOUT, {0: 3}, 4096)
    assert isinstance(again, TimeoutError)


def test_moving_to_a_node_that_is_not_there_is_an_error():
    with pages(1, touch=True) as memory:
        with pytest.raises(PlacementError, match=f"node {FOREIGN} does not exist"):
            move_to(memory, FOREIGN)
        assert placement(memory).pages == 1


def test_pages_of_a_mirror_count_once():
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 4 * PAGE)
        with Mapping(fd, 4 * PAGE, mirror=True) as ring:
            assert Bind(NODE).apply(ring) == Bind(NODE)
            view = memoryview(ring)
            view[0] = 1
            view.release()
            where = placement(ring)
            assert (where.nodes, where.pages) == ({NODE: 1}, 4)
    finally:
        os.close(fd)


def test_closed_mapping_has_no_placement():
    with Mapping(None, PAGE) as memory:
        pass
    with pytest.raises(ValueError, match="closed"):
        placement(memory)
