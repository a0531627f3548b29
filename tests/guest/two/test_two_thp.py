"""Transparent huge pages of a region lie where its policy says."""

import pytest

from zerosys import SharedRegion
from zerosys.policy import Interleave


@pytest.mark.parametrize("node", [0, 1])
def test_thp_lies_on_the_node_asked_for(node):
    with SharedRegion.create("32MiB", pages="thp", node=node) as region:
        assert region.backing.huge_bytes == region.mapped_size
        assert region.placement().all_on(node)


def test_thp_interleaves_by_huge_page():
    # Each huge page grows around one base page; were that always its first, all would land on one node.
    with SharedRegion.create("32MiB", pages="thp", policy=Interleave({0, 1})) as region:
        assert region.backing.huge_bytes == region.mapped_size
        assert region.placement().nodes == {0: 4096, 1: 4096}
