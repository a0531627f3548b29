"""Working-set pinning: registered for the block, kept within a budget, the least recently used first out."""

import contextlib

import numpy
import pytest
from memory import PAGE

from zerosys import SharedRegion, cuda
from zerosys.errors import NotRegisterable

SIZE = 4 * PAGE


@pytest.fixture
def regions(gpu):
    with contextlib.ExitStack() as undo:
        made = [undo.enter_context(SharedRegion.create(SIZE)) for _ in range(4)]
        yield made
        cuda.release_pinned()
        assert not any(region.pinned for region in made)


def pinned_now(regions):
    return [n for n, region in enumerate(regions) if region.pinned]


def test_registered_inside_and_not_after(regions):
    with cuda.pinned(*regions[:2]) as (first, second):
        assert first.pinned == second.pinned == SIZE and pinned_now(regions) == [0, 1]
    assert pinned_now(regions) == []


def test_within_the_budget_it_stays_and_is_found(gpu, regions):
    for _ in range(3):
        for region in regions[:2]:
            with cuda.pinned(region, budget=2 * SIZE) as (made,):
                assert made.pinned == SIZE
    assert gpu.watched.calls["host_register"] == 2 and gpu.watched.calls["host_unregister"] == 0
    assert cuda.release_pinned() == 2 * SIZE and pinned_now(regions) == []


def test_the_least_recently_used_makes_room(regions):
    for n in (0, 1, 2, 0, 3):  # 1 is what was not used for longest
        with cuda.pinned(regions[n], budget=3 * SIZE):
            assert len(pinned_now(regions)) <= 3
    assert pinned_now(regions) == [0, 2, 3]


def test_what_a_block_is_in_does_not_go(regions):
    with cuda.pinned(regions[0], budget=SIZE):
        with cuda.pinned(regions[1], budget=SIZE):
            assert pinned_now(regions) == [0, 1]
        with cuda.pinned(regions[2], budget=SIZE):
            assert pinned_now(regions) == [0, 2]


def test_more_than_the_budget_is_refused_before_anything_is_registered(gpu, regions):
    with pytest.raises(ValueError, match="3 buffers of 48 KiB in all are more than the budget of 47 KiB"):
        with cuda.pinned(*regions[:3], budget="47KiB"):
            pass
    assert gpu.watched.calls["host_register"] == 0
    with cuda.pinned(regions[0], regions[0], budget=SIZE):
        assert pinned_now(regions) == [0]


def test_one_that_cannot_be_registered_leaves_nothing(gpu, regions):
    gpu.watched.refusals["host_register"] = [0, 801]
    with pytest.raises(NotRegisterable), cuda.pinned(*regions):
        pass
    assert pinned_now(regions) == []


def test_a_driver_that_is_full_gets_what_nobody_uses(gpu, regions):
    with cuda.pinned(regions[0], budget=4 * SIZE):
        pass
    gpu.watched.refusals["host_register"] = [801]
    with cuda.pinned(regions[1], budget=4 * SIZE):
        assert pinned_now(regions) == [1]


def test_the_device_reads_it_in_place(regions):
    array = regions[0].array("u1")
    with cuda.pinned(regions[0]), cuda.expect_no_staging(), cuda.DeviceView(array, strict=True) as view:
        assert not view.staged
    del array


def test_an_array_of_anybodys_will_do(gpu):
    array = numpy.zeros(8 * PAGE, "u1")
    with cuda.pinned(array) as (made,):
        assert made.pinned == array.nbytes
