"""Files to and from device memory: every byte, whatever the offsets, and the way that it went."""

import os

import numpy
import pytest
from memory import PAGE

from zerosys import SharedRegion, cuda
from zerosys.cuda import direct_file, lanes, storage
from zerosys.cuda.direct_file import BLOCK

SIZE = 5 * BLOCK + 1234


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(numpy.random.default_rng(7).bytes(SIZE))
    return path


@pytest.fixture(autouse=True)
def trimmed(gpu):
    yield
    storage.trim()
    lanes._pools.clear()


def back(block, size):
    """What the device memory holds, copied to the host."""
    place = bytearray(block.size)
    cuda.copy(place, block)
    return bytes(place[:size])


@pytest.mark.parametrize("offset", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 17, SIZE - 1])
@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize("chunk", [BLOCK, 2 * BLOCK, 1 << 20])
def test_any_range_is_read_to_the_device(gpu, file, offset, count, chunk):
    with cuda.DevicePool() as pool, pool.acquire(SIZE) as block:
        result = storage.read(file, block, offset=offset, count=count, chunk=chunk, depth=2)
        right = file.read_bytes()[offset : offset + count]
        assert result.bytes == len(right) and back(block, len(right)) == right
        assert result.path in ("direct", "buffered", "cufile") and result.seconds > 0
        assert result.staged == (0 if result.path == "cufile" else result.bytes)


@pytest.mark.parametrize("offset", [0, 1, BLOCK, SIZE - 3, SIZE + 2 * BLOCK])
@pytest.mark.parametrize("count", [0, 1, BLOCK, 3 * BLOCK + 5])
def test_any_range_is_written_from_the_device_and_nothing_beside_it(gpu, file, offset, count):
    before = file.read_bytes()
    data = numpy.random.default_rng(8).bytes(SIZE)
    with cuda.DevicePool() as pool, pool.acquire(SIZE) as block:
        cuda.copy(block, data)
        result = storage.write(file, block, offset=offset, count=count, chunk=2 * BLOCK)
    assert result.bytes == count
    end = offset + count
    grown = before.ljust(end, b"\0") if count else before
    assert file.read_bytes() == grown[:offset] + data[:count] + grown[end:]


def test_a_file_is_made_and_what_stood_there_stays_behind_the_range(gpu, tmp_path):
    with cuda.DevicePool() as pool, pool.acquire(BLOCK) as block:
        cuda.copy(block, b"x" * BLOCK)
        assert storage.write(tmp_path / "new", block).bytes == BLOCK
    assert (tmp_path / "new").read_bytes() == b"x" * BLOCK


def test_host_memory_is_read_and_written_in_place(gpu, file, tmp_path):
    with SharedRegion.create(8 * BLOCK) as region:
        result = storage.read(file, region)
        assert result.bytes == SIZE and result.staged == 0
        assert bytes(memoryview(region)[:SIZE]) == file.read_bytes()
        copied = tmp_path / "copy"
        assert storage.write(copied, region, count=SIZE).bytes == SIZE
        assert copied.read_bytes() == file.read_bytes()
        odd = numpy.zeros(SIZE, "u1")
        assert storage.read(file, odd, offset=3, count=100).path == "buffered"
        assert odd[:100].tobytes() == file.read_bytes()[3:103]


def test_past_the_end_there_is_nothing(gpu, file):
    with cuda.DevicePool() as pool, pool.acquire(PAGE) as block:
        assert storage.read(file, block, offset=SIZE).bytes == 0
        assert storage.read(file, block, offset=SIZE + 10 * BLOCK).bytes == 0


def test_wrong_ranges_and_files_are_refused(gpu, file, tmp_path):
    with cuda.DevicePool() as pool, pool.acquire(PAGE) as block:
        with pytest.raises(ValueError, match=f"count must be 0 to the {PAGE} bytes of the memory, not"):
            storage.read(file, block, count=PAGE + 1)
        with pytest.raises(ValueError, match="offset must be 0 or more, not -1"):
            storage.read(file, block, offset=-1)
        with pytest.raises(ValueError, match="depth must be 1 or more, not 0"):
            storage.read(file, block, depth=0)
        with pytest.raises(FileNotFoundError):
            storage.read(tmp_path / "absent", block)
        with pytest.raises(ValueError, match="may only be read"):
            storage.read(file, bytes(10))


def test_a_file_that_is_cut_short_meanwhile_is_an_error_and_nothing_hangs(gpu, file, monkeypatch):
    real = direct_file.DirectFile.read

    def cut(self, into, offset):
        os.truncate(file, BLOCK)
        return real(self, into, offset)

    monkeypatch.setattr(direct_file.DirectFile, "read", cut)
    with cuda.DevicePool() as pool, pool.acquire(SIZE) as block:
        with pytest.raises(OSError, match="the file was cut short"):
            storage.read(file, block, chunk=BLOCK, depth=3)
    monkeypatch.undo()


def test_slots_are_kept_and_no_more_than_two_a_lane(gpu, file):
    with cuda.DevicePool() as pool, pool.acquire(SIZE) as block:
        for _ in range(5):
            storage.read(file, block, chunk=BLOCK, depth=2)
    (slots,) = lanes._pools.values()
    held = slots.stats().held_bytes
    assert slots.stats().in_use == 0 and 2 * BLOCK <= held <= 4 * BLOCK
    assert storage.trim() == held and slots.stats().held_bytes == 0


def test_where_there_is_no_direct_io_the_page_cache_serves(gpu, file, monkeypatch):
    real = os.open

    def refusing(path, flags, *mode):
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return real(path, flags, *mode)

    monkeypatch.setattr(direct_file.os, "open", refusing)
    with cuda.DevicePool() as pool, pool.acquire(SIZE) as block:
        result = storage.read(file, block)
        assert result.path == "buffered" and back(block, SIZE) == file.read_bytes()
