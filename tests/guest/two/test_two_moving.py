"""Moving a region to the other node, and to one that has no room."""

import errno
import os

import pytest
from memory import PAGE, pages

from zerosys import _numa, _splice
from zerosys.errors import PlacementError
from zerosys.moving import move_to
from zerosys.policy import Bind, memory_policy, policy_of
from zerosys.region import SharedRegion
from zerosys.whereabouts import placement

MIB = 1 << 20


def test_moved_region_is_on_the_other_node_with_its_contents_and_stays_bound_there():
    with SharedRegion.create(16 * MIB, node=0, pages="base") as region:
        with memoryview(region) as view:
            view[-3:] = b"end"
        assert region.move_to(1).nodes == {1: 4096}
        assert region.policy == Bind(1) and region.verify().ok
        assert bytes(region)[-3:] == b"end"


def test_node_without_room_is_an_error_that_counts_what_stayed():
    with (
        SharedRegion.create(400 * MIB, node=1, pages="base"),
        SharedRegion.create(500 * MIB, node=0, pages="base") as region,
    ):
        with pytest.raises(PlacementError, match=r"[0-9]+ of 128000 pages did not move.*node 1") as refusal:
            region.move_to(1)
        assert refusal.value.errno == errno.ENOMEM
        assert region.policy == policy_of(region) == Bind(0)  # as before
        nodes = region.placement().nodes
        assert sum(nodes.values()) == 128000 and nodes[0] > 0 and nodes == refusal.value.pages


def test_pages_that_a_pipe_holds_stay_and_all_others_move():
    """The kernel gives up at the first page that does not move, and says nothing of the rest."""
    with memory_policy(Bind(0)), pages(4200, touch=True) as memory:
        r, w = os.pipe()
        _splice.set_pipe_capacity(w, 1 << 20)
        with memoryview(memory.map) as view:
            held = [view[page * PAGE : (page + 1) * PAGE] for page in range(0, 4200, 100)]
            for page in held:
                assert _splice.vmsplice(w, page) == PAGE
                page.release()
        text = r"42 of 4200 pages did not move to node 1 \(42: Device or resource busy, held by"
        with pytest.raises(PlacementError, match=text) as refusal:
            move_to(memory, 1)
        assert refusal.value.pages == {1: 4158, -errno.EBUSY: 42}
        assert placement(memory).nodes == {0: 42, 1: 4158}
        assert _numa.move_pages(0, [memory.address], [1], _numa.MPOL_MF_MOVE) == [-errno.EAGAIN]
        os.close(r)
        os.close(w)
        assert move_to(memory, 1).nodes == {1: 4200}
