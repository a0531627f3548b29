"""Registering on two nodes: where the driver moves pages as it pins them, the second look finds out."""

import cuda_rig
import pytest
from memory import PAGE

from zerosys import Bind, PlacementError, Preferred, SharedRegion, _numa, cuda
from zerosys.flags import MoveFlag

PAGES = 64


@pytest.fixture
def gpu():
    rig = cuda_rig.DoubleRig()
    rig.make_current()
    yield rig
    cuda_rig.remove()


@pytest.fixture
def moving(gpu, monkeypatch):
    """A driver whose pinning takes half the pages to node 1, as it does with those of a movable zone."""
    register = gpu.double.host_register

    def move_and_register(address, size, flags):
        _numa.move_range(address, size // 2, PAGE, 1, MoveFlag.MOVE)
        register(address, size, flags)

    monkeypatch.setattr(gpu.double, "host_register", move_and_register)
    return gpu


@pytest.mark.parametrize("node", [0, 1])
def test_pages_that_stay_are_registered(gpu, node):
    with SharedRegion.create(PAGES * PAGE, pages="base", node=node) as region, cuda.register(region):
        assert region.pinned == PAGES * PAGE and region.placement().nodes == {node: PAGES}
    with cuda.HostPool(node=node) as pool, pool.acquire(PAGES * PAGE) as block:
        assert block.region.policy == Bind(node) and block.region.verify().ok


def test_pages_that_pinning_moved_are_an_error_and_unregistered(moving):
    with SharedRegion.create(PAGES * PAGE, pages="base", node=0) as region:
        with pytest.raises(PlacementError, match=f"after registering, .*{PAGES // 2} pages lie on node 1"):
            cuda.register(region)
        assert region.pinned == 0 and moving.double.ranges == []
        region.move_to(0)
        with pytest.warns(UserWarning, match="after registering"), cuda.register(region, strict=False):
            assert region.pinned == PAGES * PAGE
            with pytest.raises(PlacementError, match="registered with cuda:0"):
                region.move_to(0)


def test_a_preference_is_no_promise(moving):
    with SharedRegion.create(PAGES * PAGE, pages="base", policy=Preferred(0)) as region:
        with cuda.register(region):
            assert region.placement().nodes == {0: PAGES // 2, 1: PAGES // 2}
