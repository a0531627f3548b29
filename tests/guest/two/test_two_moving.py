"""Moving a region to the other node, and to one that has no room."""

import errno

import pytest

from zerosys.errors import PlacementError
from zerosys.policy import Bind
from zerosys.region import SharedRegion
from zerosys.whereabouts import move_to

MIB = 1 << 20


def test_moved_region_is_on_the_other_node_with_its_contents_and_stays_bound_there():
    with SharedRegion.create(16 * MIB, node=0, pages="base") as region:
        with memoryview(region) as view:
            view[-3:] = b"end"
        assert region.move_to(1).nodes == {1: 4096}
        assert region.policy == Bind(1) and region.verify().ok
        assert bytes(region)[-3:] == b"end"


def test_node_without_room_is_an_error_that_counts_what_stayed():
    with SharedRegion.create(400 * MIB, node=1, pages="base"), \
            SharedRegion.create(500 * MIB, node=0, pages="base") as region:
        with pytest.raises(PlacementError, match=r"[0-9]+ of 128000 pages did not move.*node 1") as refusal:
            move_to(region, 1)
        assert refusal.value.errno == errno.ENOMEM
        nodes = region.placement().nodes
        assert sum(nodes.values()) == 128000 and nodes[0] > 0 and nodes == refusal.value.pages
