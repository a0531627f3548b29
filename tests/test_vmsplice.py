"""vmsplice is raw: it lends pages, and later writes reach the reader. What it refuses to give away."""

import array
import errno
import mmap
import os

import pytest
from ends import Background, no_descriptor_left

import zerosys
from zerosys._lend import lend
from zerosys._splice import IOV_MAX, pipe_capacity, pipe_occupancy
from zerosys.flags import SpliceFlag

PAGE = mmap.PAGESIZE


@pytest.fixture
def pipe():
    with no_descriptor_left():
        ends = os.pipe()
        yield ends
        for fd in ends:
            os.close(fd)


@pytest.mark.parametrize(
    "buffer",
    [b"bytes", bytearray(b"bytes"), memoryview(b"..bytes..")[2:7], array.array("b", b"bytes")],
    ids=lambda buffer: type(buffer).__name__,
)
def test_any_buffer_is_lent(pipe, buffer):
    assert zerosys.vmsplice(pipe[1], buffer) == 5
    assert os.read(pipe[0], 10) == b"bytes"


def test_several_buffers_are_lent_in_their_order(pipe):
    parts = [b"one ", bytearray(b""), memoryview(b"two "), b"three"]
    assert zerosys.vmsplice(pipe[1], parts) == 13
    assert zerosys.vmsplice(pipe[1], (part for part in parts)) == 13
    assert os.read(pipe[0], 100) == 2 * b"one two three"


def test_nothing_to_lend_is_zero(pipe):
    assert zerosys.vmsplice(pipe[1], b"") == zerosys.vmsplice(pipe[1], []) == 0


def test_of_more_buffers_than_the_kernel_takes_the_first_are_lent(pipe):
    endless = iter(lambda: b"", None)
    assert zerosys.vmsplice(pipe[1], endless) == 0
    parts = [b""] * (IOV_MAX - 1) + [b"last", b"too late"]
    assert zerosys.vmsplice(pipe[1], parts) == 4
    assert os.read(pipe[0], 100) == b"last"


def test_a_full_pipe_gives_a_short_count_and_then_refuses(pipe):
    memory = mmap.mmap(-1, 256 << 10)
    assert zerosys.vmsplice(pipe[1], memory, SpliceFlag.NONBLOCK) == 64 << 10
    with pytest.raises(BlockingIOError):
        zerosys.vmsplice(pipe[1], memory, SpliceFlag.NONBLOCK)


def test_every_flag_but_gift_lends_the_same_bytes(pipe):
    for flags in (SpliceFlag.MOVE, SpliceFlag.NONBLOCK, SpliceFlag.MORE, 7):
        assert zerosys.vmsplice(pipe[1], b"same", flags) == 4
        assert os.read(pipe[0], 10) == b"same"


def test_later_writes_reach_the_reader(pipe):
    memory = mmap.mmap(-1, PAGE)
    memory[:3] = b"old"
    zerosys.vmsplice(pipe[1], memory)
    memory[:3] = b"new"
    assert os.read(pipe[0], 3) == b"new"


def test_an_empty_pipe_is_no_proof_that_the_pages_were_read(pipe):
    memory = mmap.mmap(-1, PAGE)
    memory[:3] = b"old"
    second = os.pipe()
    zerosys.vmsplice(pipe[1], memory)
    zerosys.splice(pipe[0], second[1], PAGE)
    assert zerosys.pipe_occupancy(pipe[0]) == 0
    memory[:3] = b"new"
    assert os.read(second[0], 3) == b"new"
    for fd in second:
        os.close(fd)


def test_from_a_reading_end_bytes_are_copied_into_the_buffers(pipe):
    os.write(pipe[1], b"abcdefg")
    first, second = bytearray(3), bytearray(10)
    assert zerosys.vmsplice(pipe[0], [first, second]) == 7
    assert (first, second[:4]) == (b"abc", b"defg")


@pytest.mark.parametrize("buffers", [b"constant", [bytearray(3), b"constant"]])
def test_a_read_only_buffer_is_never_written(pipe, buffers):
    os.write(pipe[1], b"abcdefg")
    with pytest.raises(TypeError, match="reading end, so the buffer is written: pass a writable one"):
        zerosys.vmsplice(pipe[0], buffers)
    assert zerosys.pipe_occupancy(pipe[0]) == 7


@pytest.mark.parametrize("buffers", ["text", 7, None, [b"x", "text"], [b"x", None]])
def test_what_is_no_buffer_is_a_type_error_and_nothing_is_lent(pipe, buffers):
    with pytest.raises(TypeError):
        zerosys.vmsplice(pipe[1], buffers)
    assert zerosys.pipe_occupancy(pipe[0]) == 0


def test_scattered_memory_is_a_buffer_error(pipe):
    with pytest.raises(BufferError):
        zerosys.vmsplice(pipe[1], memoryview(b"abcdef")[::2])


def test_buffers_are_let_go_after_success_and_after_failure(pipe):
    memory = bytearray(10)
    zerosys.vmsplice(pipe[1], [memory, memory])
    for bad in ([memory, None], [memory, memoryview(b"abc")[::2]]):
        with pytest.raises((TypeError, BufferError)):
            zerosys.vmsplice(pipe[1], bad)
    with pytest.raises(OSError) as refusal:
        zerosys.vmsplice(pipe[1], memory, 1 << 20)
    assert refusal.value.errno == errno.EINVAL
    memory.extend(b"no view holds it in place")


@pytest.mark.parametrize(
    "owner",
    [
        bytes(PAGE),
        bytearray(PAGE),
        memoryview(bytearray(4 * PAGE))[PAGE:-PAGE],
        array.array("b", bytes(PAGE)),
        mmap.mmap(-1, PAGE),
    ],
    ids=lambda owner: type(owner).__name__,
)
def test_memory_that_is_not_ours_is_no_gift(pipe, owner):
    for buffers in (owner, [owner]):
        with pytest.raises(ValueError, match=r"GIFT needs whole pages .* not \w+: its pages"):
            zerosys.vmsplice(pipe[1], buffers, SpliceFlag.GIFT)
    assert zerosys.pipe_occupancy(pipe[0]) == 0


def test_a_gift_to_a_reading_end_is_refused_before_it_fills_and_empties_the_buffer(pipe):
    os.write(pipe[1], b"kept")
    with pytest.raises(ValueError, match="reading end"):
        zerosys.vmsplice(pipe[0], bytearray(PAGE), SpliceFlag.GIFT)
    assert os.read(pipe[0], 10) == b"kept"


@pytest.mark.parametrize("spin", [0, 0.001])
def test_buffers_are_lent_in_turn_until_the_count_is_reached(spin):
    reader, writer = os.pipe()
    with open(reader, "rb") as source:
        collector = Background(source.read)
        assert lend([b"a" * 5000, b"b" * 3000], writer, 20_000, timeout=30, spin=spin) == 20_000
        os.close(writer)
        assert collector.result() == (b"a" * 5000 + b"b" * 3000) * 2 + b"a" * 4000


def test_lending_to_a_pipe_that_nobody_reads_ends_in_time_and_tells_how_much_went():
    reader, writer = os.pipe()
    with pytest.raises(TimeoutError) as late:
        lend([bytes(4096)], writer, 1 << 20, timeout=0.1)
    # Of a buffer that begins within a page, two pages fill two slots.
    assert late.value.moved == pipe_occupancy(reader) > pipe_capacity(writer) // 4
    os.close(reader)
    with pytest.raises(BrokenPipeError) as broken:
        lend([bytes(4096)], writer, 1)
    assert broken.value.moved == 0
    os.close(writer)
    for wrong in ([], [b""]):
        with pytest.raises(ValueError, match="buffer"):
            lend(wrong, 1, 1)
