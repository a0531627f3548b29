"""A region that a cgroup or a cpuset would not bear is an error, and the process lives (FAULTS N4, N8)."""

import errno
import os
import sys

import pytest
from counts import nothing_left

sys.path.insert(0, os.path.dirname(__file__))

from cpusets import inside_group
from swapping import PAGEOUT, swap_out

from zerosys.errors import PlacementError, PlacementWarning
from zerosys.policy import Bind
from zerosys.region import SharedRegion

MIB = 1 << 20


@pytest.mark.parametrize("node", [None, 0])
def test_a_region_beyond_the_cgroup_s_limit_is_foreseen(node):
    with inside_group(memory_max=str(64 * MIB)):
        with (
            nothing_left(),
            pytest.raises(OSError, match=r"memory\.max is 64 MiB") as no,
        ):
            SharedRegion.create(80 * MIB, node=node, pages="base")
        assert no.value.errno == errno.ENOMEM
        with SharedRegion.create(8 * MIB, node=node, pages="base") as region:
            assert region.resident() == 8 * MIB


def test_a_limit_that_falls_while_a_region_fills_stops_it_between_slices():
    with inside_group(memory_max=str(400 * MIB)) as group:
        real = SharedRegion.populate
        steps = []

        class Watched(SharedRegion):
            def populate(self, **words):
                steps.append(words["length"])
                got = real(self, **words)
                if len(steps) == 2:
                    group.joinpath("memory.max").write_text(str(160 * MIB))
                return got

        with nothing_left(), pytest.raises(OSError, match="left") as no:
            Watched.create(300 * MIB, pages="base", node=0)
        assert no.value.errno == errno.ENOMEM
        assert steps == [64 * MIB, 64 * MIB]


def test_a_node_that_the_cpuset_forbids_is_named_and_the_others_work():
    with inside_group(cpuset_mems="1"):
        with nothing_left(), pytest.raises(PlacementError, match=r"node 0 is not allowed by the cpuset"):
            SharedRegion.create(MIB, node=0)
        with pytest.raises(PlacementError, match=r"node 0 is not allowed"):
            SharedRegion.create(MIB, node="0,1")
        with pytest.warns(PlacementWarning, match="node 0 is not allowed"):
            region = SharedRegion.create(MIB, node="0,1", strict=False)
        assert region.policy == Bind(1) and region.verify().ok
        region.close()
        with SharedRegion.create(MIB, node="all") as every:
            assert every.placement().nodes == {1: MIB // 4096}


def test_a_region_of_a_node_without_processors_is_filled_from_elsewhere():
    with SharedRegion.create(32 * MIB, node=3, pages="base") as region:
        assert region.placement().nodes == {3: 32 * MIB // 4096}


def test_locked_memory_is_not_swapped_and_unlocked_memory_can_be():
    with SharedRegion.create(4 * MIB, node=1, pages="base", lock=True) as locked:
        with pytest.raises(OSError) as no:
            locked.advise(PAGEOUT)
        assert no.value.errno == errno.EINVAL
        assert locked.resident() == 4 * MIB
        locked.unlock()
        assert swap_out(locked, 0, 4 * MIB) < 4 * MIB
        assert not locked.verify().ok  # what is swapped out lies nowhere
        memoryview(locked)[:] = bytes(4 * MIB)
        assert locked.verify().ok
