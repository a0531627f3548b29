"""Looking at named memory on an odd machine: what is swapped out stays there, nodes keep their numbers."""

import os

from memory import PAGE
from swapping import swap_out

from zerosys import segments
from zerosys.region import SharedRegion

SIZE = 32 << 20


def test_what_is_swapped_out_is_told_and_stays_there():
    with SharedRegion.create(SIZE, name="swapped", node=0, pages="base") as region:
        there = swap_out(region, SIZE // 4, SIZE // 2)
        assert SIZE // 2 <= there < SIZE
        seen = segments.segment("swapped")
        assert (seen.nodes, seen.unplaced) == ({0: there // PAGE}, (SIZE - there) // PAGE)
        assert region.resident() == there
        region.unlink()


def test_a_node_without_cpus_is_told_by_its_number():
    with SharedRegion.create(1 << 20, name="odd", node=3) as region:
        assert segments.segment("odd").nodes == {3: 256}
        region.unlink()


def test_a_sparse_segment_of_a_terabyte_is_seen_at_once():
    fd = os.open("/dev/shm/sparse", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 1 << 40)
    for at in (0, 1 << 30, (1 << 40) - 1):
        os.pwrite(fd, b"x", at)
    seen = segments.segment("sparse")
    assert (sum(seen.nodes.values()), seen.unplaced) == (3, 0)
    assert os.fstat(fd).st_blocks * 512 == 3 * PAGE
    os.close(fd)
    segments.remove("sparse")
