"""Regions of huge pages on two nodes with a pool each: whole, on the node, or an error (FAULTS M11)."""

import errno
import multiprocessing
import os

import pytest
from counts import nothing_left

from zerosys import _memfd, _mmap
from zerosys.policy import Bind
from zerosys.region import SharedRegion

HUGE = 2 << 20
POOL = 16  # of each node, as the shape has it


def free(node):
    with open(f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/free_hugepages") as file:
        return int(file.read())


@pytest.mark.parametrize("node", [0, 1])
def test_huge_pages_come_from_the_node_and_go_back(node):
    with SharedRegion.create(3 << 20, pages="2M", node=node) as region:
        assert (region.size, region.mapped_size, region.page_size) == (3 << 20, 4 << 20, HUGE)
        assert region.placement().nodes == {node: 2} and region.verify().ok
        assert (region.backing.pages, region.backing.huge_bytes) == ("2M", 4 << 20)
        memoryview(region)[3 << 20 >> 1] = 1
        assert free(node) == POOL - 2
    assert free(node) == POOL


def test_auto_takes_huge_pages_only_where_the_node_s_own_pool_covers_it():
    with SharedRegion.create(POOL * HUGE, node=1) as region:
        assert region.backing.pages == "2M" and region.placement().nodes == {1: POOL}
        with SharedRegion.create(2 * HUGE, node=1) as second:  # node 0's pool is full, and not asked for
            assert second.backing.pages == "base" and second.verify().ok
    with SharedRegion.create((POOL + 1) * HUGE, node=1) as region:
        assert region.backing.pages == "base" and region.verify().ok
    with SharedRegion.create((POOL + 1) * HUGE) as region:
        assert region.backing.pages == "2M"
    with SharedRegion.create(HUGE - 1, node=0) as region:
        assert region.backing.pages == "base"


def test_a_pool_that_is_short_on_the_node_is_an_error_and_no_signal():
    with nothing_left(), pytest.raises(OSError, match="pool of 2 MiB pages of node 1") as refusal:
        SharedRegion.create((POOL + 1) * HUGE, node=1, pages="2M")
    assert refusal.value.errno == errno.ENOMEM
    # By force the machine's pool lets the mapping be, and the node's runs out while populating.
    with nothing_left(), pytest.raises(OSError, match="ran out after") as refusal:
        SharedRegion.create((POOL + 1) * HUGE, node=1, pages="2M", force=True)
    assert refusal.value.errno == errno.ENOMEM and 0 < refusal.value.populated <= POOL * HUGE
    assert (free(0), free(1)) == (POOL, POOL)


def test_an_attached_region_has_the_policy_and_the_pages():
    with SharedRegion.create(4 * HUGE, pages="2M", node=1) as region, region.handle() as given:
        with SharedRegion.attach(given) as other, SharedRegion.attach(given, read_only=True) as reader:
            region.array("u1")[:] = 3
            assert int(other.array("u1")[-1]) == int(reader.array("u1")[0]) == 3
            assert other.policy == Bind(1) and other.placement().nodes == {1: 4}
            assert reader.placement().nodes == {1: 4}
        with SharedRegion.attach(region.fileno()) as bare:
            assert (bare.size, bare.backing.pages, bare.placement().nodes) == (4 * HUGE, "2M", {1: 4})


def fill_with_two(region):
    region.array("u1")[:] = 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_huge_pages_travel(method):
    context = multiprocessing.get_context(method)
    with SharedRegion.create(2 * HUGE, pages="2M", node=0) as region:
        process = context.Process(target=fill_with_two, args=(region,))
        process.start()
        process.join()
        assert process.exitcode == 0 and int(region.array("u1").sum()) == 4 * HUGE


def test_a_foreign_huge_file_that_nobody_populated_is_populated_on_attaching():
    fd = _memfd.memfd_create("foreign", huge_page=HUGE)
    os.ftruncate(fd, 3 * HUGE)
    _memfd.add_seals(fd, _memfd.F_SEAL_SHRINK | _memfd.F_SEAL_GROW)
    with SharedRegion.attach(fd) as region:
        assert sum(region.placement().nodes.values()) == 3
    os.close(fd)


def test_a_mirror_of_huge_pages_shows_them_twice():
    fd = _memfd.memfd_create("ring", huge_page=HUGE)
    os.ftruncate(fd, 2 * HUGE)
    with _mmap.Mapping(fd, 2 * HUGE, mirror=True) as mirror:
        assert mirror.mapped_size == 8 << 20 and mirror.address % HUGE == 0
        mirror.populate()
        view = memoryview(mirror)
        view[2 * HUGE - 1 : 2 * HUGE + 1] = b"ab"
        assert view[0] == ord("b") and view[-1] == ord("a")
        view.release()
    with pytest.raises(ValueError, match="multiple of 2097152"):
        _mmap.Mapping(fd, HUGE + 4096, mirror=True)
    os.close(fd)


def test_a_gigabyte_page_is_refused_by_the_pool_s_name():
    with nothing_left(), pytest.raises(OSError, match="1 GiB"):
        SharedRegion.create(1 << 30, pages="1G")


def test_moving_a_huge_region_keeps_its_bytes():
    with SharedRegion.create(2 * HUGE, pages="2M", node=0) as region:
        region.array("u1")[:] = 5
        assert region.move_to(1).nodes == {1: 2}
        assert int(region.array("u1").sum()) == 5 * 2 * HUGE and region.verify().ok
