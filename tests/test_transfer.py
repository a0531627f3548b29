"""Transfer: every pair of ends, what is counted, and what is refused."""

import errno
import os
import random
import socket

import pytest
from ends import Sink, Source, no_descriptor_left, read_all, tcp_pair

from zerosys._transfer import Transfer

DATA = random.Random(5).randbytes(1_000_003)
KINDS = ["file", "pipe", "tcp", "unix"]


@pytest.mark.parametrize("sink_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
def test_every_pair_of_descriptors_moves_every_byte(source_kind, sink_kind, tmp_path):
    with no_descriptor_left():
        source, sink = Source(source_kind, DATA, tmp_path), Sink(sink_kind, tmp_path)
        with Transfer(source.fd, sink.fd) as transfer:
            assert transfer.run(timeout=30) == len(DATA)
        assert sink.received() == DATA
        source.close()
    assert (transfer.moved, transfer.received, transfer.copied) == (len(DATA), 0, 0)
    assert transfer.done and transfer.stranded == 0 and transfer.side is None
    ways = {("file", "file"): "copy_file_range"}
    way = "splice" if "pipe" in (source_kind, sink_kind) else "splice-pipe-splice"
    way = ways.get((source_kind, sink_kind), way)
    # A file system that shares blocks does so.
    assert transfer.path in ("reflink", way + ", kernel copies" * (sink_kind == "file"))
    assert bool(transfer.pipe_size) == (way == "splice-pipe-splice")


@pytest.mark.parametrize("kind", KINDS)
def test_a_descriptor_is_received_straight_into_memory(kind, tmp_path):
    place = bytearray(len(DATA))
    with no_descriptor_left():
        source = Source(kind, DATA, tmp_path)
        with Transfer(source.fd, place) as transfer:
            assert transfer.run(timeout=30) == len(DATA)
        source.close()
    assert place == DATA
    assert (transfer.moved, transfer.received, transfer.copied) == (0, len(DATA), 0)
    assert transfer.path == "take"


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_written_to_a_descriptor(kind, tmp_path):
    with no_descriptor_left():
        sink = Sink(kind, tmp_path)
        with Transfer(DATA, sink.fd) as transfer:
            assert transfer.run(timeout=30) == len(DATA)
        assert sink.received() == DATA
    assert (transfer.moved, transfer.received, transfer.copied) == (0, 0, len(DATA))
    assert transfer.path == "give"


def test_memory_is_copied_to_memory():
    place = bytearray(len(DATA))
    with Transfer(DATA, place) as transfer:
        assert transfer.run() == len(DATA)
    assert place == DATA and transfer.copied == len(DATA)


def test_a_shorter_source_leaves_the_rest_of_the_memory_alone(tmp_path):
    place = bytearray(b"." * 10)
    source = Source("pipe", b"abc", tmp_path)
    with Transfer(source.fd, place) as transfer:
        assert transfer.run(timeout=30) == 3
    source.close()
    assert place == b"abc......."


def test_an_empty_source_is_no_error(tmp_path):
    source, sink = Source("file", b"", tmp_path), Sink("tcp", tmp_path)
    with Transfer(source.fd, sink.fd) as transfer:
        assert transfer.run() == 0 and transfer.done
    source.close()
    assert sink.received() == b""


def test_count_ends_a_transfer_and_leaves_the_rest_in_the_source(tmp_path):
    reader, writer = os.pipe()
    os.write(writer, b"first second")
    sink = Sink("unix", tmp_path)
    with Transfer(reader, sink.fd, 6) as transfer:
        assert transfer.run() == 6
    assert os.read(reader, 20) == b"second"
    assert sink.received() == b"first "
    os.close(reader)
    os.close(writer)


def test_offsets_leave_the_positions_of_the_files_alone(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"..........")
    with open(tmp_path / "a", "rb") as a, open(tmp_path / "b", "r+b") as b:
        with Transfer(a, b, 4, offset_src=3, offset_dst=5) as transfer:
            assert transfer.run() == 4
        assert (os.lseek(a.fileno(), 0, os.SEEK_CUR), os.lseek(b.fileno(), 0, os.SEEK_CUR)) == (0, 0)
    assert (tmp_path / "b").read_bytes() == b".....3456."


def test_offsets_hold_beyond_4_gib(tmp_path):
    with open(tmp_path / "sparse", "w+b") as sparse:
        os.pwrite(sparse.fileno(), b"0123456789", 2**32 + 5)
        place = bytearray(10)
        with Transfer(sparse, place, offset_src=2**32 + 5) as transfer:
            assert transfer.run() == 10
        assert place == b"0123456789"


def test_more_than_one_system_call_can_carry_is_carried():
    size = 3 << 30  # splice stops at 0x7ffff000
    sparse = os.memfd_create("sparse")
    os.truncate(sparse, size)
    with open("/dev/null", "wb", buffering=0) as null, Transfer(sparse, null) as transfer:
        assert transfer.run() == size
    os.close(sparse)


def test_a_sink_that_refuses_splice_is_written_and_counted_as_copied(tmp_path):
    source = Source("file", DATA, tmp_path)
    sink = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(sink, b"before ")
    with Transfer(source.fd, sink) as transfer:
        assert transfer.run() == len(DATA)
    os.close(sink)
    source.close()
    assert (tmp_path / "log").read_bytes() == b"before " + DATA
    assert (transfer.moved, transfer.copied, transfer.path) == (0, len(DATA), "read-write")


@pytest.mark.parametrize("name", ["/proc/self/status", "/proc/self/maps", "/proc/meminfo", "/proc/cmdline"])
@pytest.mark.parametrize("kind", ["pipe", "tcp"])
def test_pseudo_files_arrive_whole_whatever_splice_says(name, kind, tmp_path):
    sink = Sink(kind, tmp_path)
    with open(name, "rb", buffering=0) as file, Transfer(file, sink.fd) as transfer:
        carried = transfer.run(timeout=30)
        assert transfer.moved + transfer.copied == carried
    received = sink.received()
    assert len(received) == carried > 0
    with open(name, "rb") as again:
        assert received.split(None, 1)[0] == again.read().split(None, 1)[0]


def test_a_pipe_of_one_page_still_moves_every_byte(tmp_path):
    source, sink = Source("file", DATA, tmp_path), Sink("tcp", tmp_path)
    with Transfer(source.fd, sink.fd, pipe_size=1) as transfer:
        assert transfer.pipe_size == os.sysconf("SC_PAGESIZE")
        assert transfer.run(timeout=30) == len(DATA)
    source.close()
    assert sink.received() == DATA


def test_pipe_size_is_a_wish(tmp_path):
    source, sink = Source("file", DATA, tmp_path), Sink("tcp", tmp_path)
    with Transfer(source.fd, sink.fd, pipe_size=2**40) as transfer:
        assert 65536 <= transfer.pipe_size <= 2**30
        assert transfer.run(timeout=30) == len(DATA)
    source.close()
    assert sink.received() == DATA


def test_a_dead_sink_tells_what_it_took_and_what_is_stranded(tmp_path):
    reader, writer = os.pipe()
    os.write(writer, DATA[:60_000])
    near, far = socket.socketpair()
    far.close()
    with no_descriptor_left(), Transfer(reader, near) as transfer:
        with pytest.raises(BrokenPipeError) as caught:
            transfer.run(timeout=30)
    assert (caught.value.moved, caught.value.stranded, caught.value.side) == (0, 0, "sink")
    assert os.read(reader, 1 << 17) == DATA[:60_000]
    for fd in (reader, writer, near.detach()):
        os.close(fd)


@pytest.mark.parametrize("source_kind", KINDS)
def test_nothing_is_lost_when_the_sink_dies(source_kind, tmp_path):
    """What left the source is what the sink accepted and what take_stranded() gives."""
    source = Source(source_kind, DATA, tmp_path)
    near, far = tcp_pair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    transfer = Transfer(source.fd, near)
    with pytest.raises(TimeoutError) as late:
        transfer.run(timeout=0.2)
    assert late.value.side == "sink" and 0 < late.value.moved < len(DATA)
    assert far.recv(100, socket.MSG_WAITALL) == DATA[:100]
    far.close()  # with bytes unread: a reset
    with pytest.raises(ConnectionError) as dead:
        transfer.run(timeout=30)
    failure = dead.value
    assert (failure.side, failure.moved, failure.stranded) == ("sink", transfer.moved, transfer.stranded)
    stranded = transfer.take_stranded()
    assert len(stranded) == failure.stranded
    assert stranded == DATA[failure.moved : failure.moved + failure.stranded]
    transfer.close()
    assert stranded + read_all(source.fd) == DATA[failure.moved :]
    source.close()
    near.close()


def test_a_source_that_fails_is_named(tmp_path):
    sink = Sink("tcp", tmp_path)
    unreadable = os.open(tmp_path / "write-only", os.O_WRONLY | os.O_CREAT)
    with Transfer(unreadable, sink.fd) as transfer, pytest.raises(OSError) as caught:
        transfer.run()
    assert (caught.value.errno, caught.value.side) == (errno.EBADF, "source")
    os.close(unreadable)
    assert sink.received() == b""


def test_a_sink_that_fails_is_named(tmp_path):
    source = Source("pipe", b"abc", tmp_path)
    readable = os.open("/dev/null", os.O_RDONLY)
    with Transfer(source.fd, readable) as transfer, pytest.raises(OSError) as caught:
        transfer.run()
    assert (caught.value.errno, caught.value.side) == (errno.EBADF, "sink")
    os.close(readable)
    source.close()


def test_a_full_disk_is_the_sinks_fault(tmp_path):
    with open("/dev/full", "wb", buffering=0) as full, Transfer(b"abc", full) as transfer:
        with pytest.raises(OSError) as caught:
            transfer.run()
    assert (caught.value.errno, caught.value.side) == (errno.ENOSPC, "sink")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "word"),
    [
        ((0, 1), {"count": -1}, ValueError, "count"),
        ((0, 1), {"count": 1.5}, TypeError, "float"),
        ((0, 1), {"pipe_size": 0}, ValueError, "pipe_size"),
        ((0, 1), {"offset_src": -1}, ValueError, "offset_src"),
        ((b"abc", 1), {"offset_src": 1}, ValueError, "slice"),
        ((b"abc", 1), {"count": 4}, ValueError, "3 bytes"),
        ((0, bytearray(2)), {"count": 4}, ValueError, "2 bytes"),
        ((0, b"abc"), {}, TypeError, "writable"),
        ((0, memoryview(bytearray(8))[::2]), {}, TypeError, "contiguous"),
        (("0", 1), {}, TypeError, "fileno"),
        ((-1, 1), {}, ValueError, "-1"),
        ((2**20, 1), {}, OSError, "src is not an open descriptor"),
    ],
)
def test_bad_arguments_are_refused_before_anything_opens(arguments, options, error, word):
    with no_descriptor_left(), pytest.raises(error, match=word):
        Transfer(*arguments, **options)


@pytest.mark.parametrize(
    ("timeout", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError)]
)
def test_bad_timeouts_are_refused(timeout, error):
    with Transfer(b"", 1) as transfer, pytest.raises(error):
        transfer.run(timeout)


def test_a_pipe_is_not_carried_into_itself():
    reader, writer = os.pipe()
    with pytest.raises(ValueError, match="same pipe"):
        Transfer(reader, writer)
    os.close(reader)
    os.close(writer)


def test_a_buffer_is_held_until_close():
    place = bytearray(3)
    transfer = Transfer(b"abc", place)
    with pytest.raises(BufferError):
        place.append(0)
    transfer.close()
    transfer.close()
    place.append(0)
    assert transfer.closed
    with pytest.raises(ValueError, match="closed"):
        transfer.run()
    with pytest.raises(ValueError, match="closed"):
        transfer.take_stranded()
