"""What the driver itself answers: the double is held against the real one here."""

import mmap

import pytest
from memory import PAGE, pages

from zerosys import SharedRegion
from zerosys.cuda import backend

SIZE = 64 * PAGE


@pytest.fixture
def region():
    with SharedRegion.create(SIZE, pages="base") as made:
        yield made


def test_the_same_range_again_is_712_and_one_that_overlaps_too(gpu, region):
    at = region.address
    assert gpu.register(at, SIZE) == 0
    assert gpu.register(at, SIZE) == 712
    assert gpu.register(at + PAGE, SIZE // 2) == 712
    assert gpu.unregister(at) == 0


def test_unregistering_what_is_not_registered_is_713(gpu, region):
    assert gpu.unregister(region.address) == 713


def test_nothing_is_1(gpu, region):
    assert gpu.register(region.address, 0) == 1


def test_one_copy_across_two_registrations_is_1_and_within_one_is_not(gpu, region):
    at, half = region.address, SIZE // 2
    assert gpu.register(at, half) == gpu.register(at + half, half) == 0
    with gpu.memory(SIZE) as device:
        assert gpu.copy(device, at, SIZE) == 1
        assert gpu.copy(at, device, SIZE) == 1
        assert gpu.copy(device, at, half) == gpu.copy(device, at + half, half) == 0
    assert gpu.unregister(at) == gpu.unregister(at + half) == 0


def test_read_only_memory_is_1_without_the_flag_and_fine_with_it(gpu, region):
    with SharedRegion.attach(region.fileno(), read_only=True) as reader:
        assert gpu.register(reader.address, SIZE) == 1
        assert gpu.register(reader.address, SIZE, 3 | backend.READ_ONLY) == 0
        assert gpu.unregister(reader.address) == 0


def test_a_file_that_is_not_memory_is_1(gpu, tmp_path):
    with mapped_file(tmp_path) as (address, _):
        assert gpu.register(address, PAGE) == 1


def mapped_file(folder):
    from zerosys._mmap import Mapping

    class Mapped:
        def __enter__(self):
            self.file = open(folder / "file", "w+b")
            self.file.truncate(PAGE)
            self.mapping = Mapping(self.file, PAGE)
            return self.mapping.address, self.mapping

        def __exit__(self, *exc):
            self.mapping.close()
            self.file.close()

    return Mapped()


def test_a_mirror_is_registered_over_both_halves_by_one_call(gpu, region):
    from zerosys._mmap import Mapping

    with Mapping(region, SIZE, mirror=True) as mirror:
        assert gpu.register(mirror.address, 2 * SIZE) == 0
        with gpu.memory(SIZE) as device:
            assert gpu.copy(device, mirror.address + SIZE // 2, SIZE) == 0
        assert gpu.unregister(mirror.address) == 0


def test_two_mappings_of_the_same_memory_are_registered_each(gpu, region):
    with SharedRegion.attach(region.fileno()) as other:
        assert gpu.register(region.address, SIZE) == gpu.register(other.address, SIZE) == 0
        assert gpu.unregister(other.address) == gpu.unregister(region.address) == 0


def test_the_driver_tells_what_a_pointer_is(gpu, region):
    ask = gpu.watched.inner.pointer
    assert ask(region.address).kind == "pageable"
    assert gpu.register(region.address, SIZE) == 0
    there = ask(region.address + PAGE)
    assert (there.kind, there.start, there.size) == ("host", region.address, SIZE)
    assert there.pointer == gpu.watched.inner.device_pointer(region.address + PAGE)
    assert gpu.unregister(region.address) == 0
    with gpu.memory(SIZE) as device:
        there = ask(device)
        assert (there.kind, there.start, there.size >= SIZE) == ("device", device, True)


def test_anonymous_pages_are_registered_whether_they_begin_a_page_or_not(gpu):
    with pages(4, touch=True) as memory:
        assert gpu.register(memory.address + 100, PAGE) == 0
        assert gpu.unregister(memory.address + 100) == 0
    assert mmap.PAGESIZE == PAGE


def test_a_failed_runtime_call_stays_latched_until_somebody_takes_it(gpu):
    gpu.latch()
    assert gpu.peek() == 713
    gpu.take()
    assert gpu.peek() == 0
