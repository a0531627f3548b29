"""Regions on nodes of different sizes: placed, foreseen, spilled, moved (FAULTS N7, N8)."""

import errno

import pytest

from zerosys.errors import PlacementError, PlacementWarning
from zerosys.policy import Interleave, Preferred
from zerosys.region import SharedRegion

MIB = 1 << 20


@pytest.mark.parametrize("node", [0, 1, 3])
def test_populated_region_has_every_page_on_its_node(node):
    with SharedRegion.create(8 * MIB, node=node, pages="base") as region:
        assert region.placement().nodes == {node: 2048}
        assert region.verify().ok


def test_region_that_is_not_populated_is_absent_and_asking_changes_nothing():
    with SharedRegion.create(8 * MIB, node=1, populate=False) as region:
        for _ in range(2):
            where = region.placement()
            assert (where.nodes, where.absent) == ({}, 2048)
        with memoryview(region) as view:
            view[:] = bytes(8 * MIB)
        assert region.placement().nodes == {1: 2048}


def test_more_than_the_node_has_is_an_error_and_nobody_is_killed():
    with pytest.raises(OSError, match=r"node 1 has .* left: take another node") as refusal:
        SharedRegion.create(900 * MIB, node=1, pages="base")
    assert refusal.value.errno == errno.ENOMEM
    with pytest.raises(PlacementError, match="node 2 has no memory"):
        SharedRegion.create(MIB, node=2)


def test_preferred_region_spills_and_says_so():
    with (
        pytest.warns(PlacementWarning),
        SharedRegion.create(300 * MIB, policy=Preferred(3), pages="base") as region,
    ):
        nodes = region.placement().nodes
        assert len(nodes) > 1 and 3 in nodes
        assert sum(nodes.values()) == 300 * MIB // 4096


def test_interleaved_region_is_even():
    with SharedRegion.create(8 * MIB, policy=Interleave({0, 1}), pages="base") as region:
        assert region.placement().nodes == {0: 1024, 1: 1024}
