"""pump(): every kind of end, and what it tells."""

import io
import os
import random
import signal
import socket
import tempfile
from itertools import pairwise

import pytest
from ends import Sink, Source, no_descriptor_left

from zerosys import PumpError, PumpTimeout, SharedRegion, ShortSource, WouldCopy, pump

DATA = random.Random(7).randbytes(700_001)
KINDS = ["file", "pipe", "tcp", "unix"]


@pytest.mark.parametrize("sink_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
def test_every_pair_of_descriptors_moves_every_byte_without_a_copy(source_kind, sink_kind, tmp_path):
    with no_descriptor_left():
        source, sink = Source(source_kind, DATA, tmp_path), Sink(sink_kind, tmp_path)
        result = pump(source.fd, sink.fd, timeout=30, strict=True)
        assert sink.received() == DATA
        source.close()
    assert (result.bytes, result.moved, result.copied) == (len(DATA), len(DATA), 0)
    assert result.aliases == (source_kind == "file" and sink_kind != "file")
    assert ("kernel copies" in result.path or result.path == "reflink") == (sink_kind == "file")


@pytest.mark.parametrize("source_kind", ["file", "pipe"])
@pytest.mark.parametrize("sink_kind", ["pipe", "tcp", "unix"])
def test_stable_copies_where_later_writes_would_be_seen(source_kind, sink_kind, tmp_path):
    source, sink = Source(source_kind, DATA, tmp_path), Sink(sink_kind, tmp_path)
    with pytest.raises(WouldCopy):
        pump(source.fd, sink.fd, stable=True, strict=True)
    result = pump(source.fd, sink.fd, timeout=30, stable=True)
    assert (result.copied, result.path, result.aliases) == (len(DATA), "read-write", False)
    assert sink.received() == DATA
    source.close()


def test_what_was_pumped_stably_into_a_pipe_is_not_changed_by_a_later_write(tmp_path):
    reader, writer = os.pipe()
    for stable, seen in ((False, b"new"), (True, b"old")):
        with open(tmp_path / "file", "wb+", buffering=0) as file:
            file.write(b"old")
            result = pump(file, writer, 3, offset_src=0, stable=stable)
            os.pwrite(file.fileno(), b"new", 0)
        assert os.read(reader, 3) == seen
        assert result.aliases is not stable
    os.close(reader)
    os.close(writer)


def test_memory_is_written_read_and_copied(tmp_path):
    region = SharedRegion.create(len(DATA))
    source, sink = Source("pipe", DATA, tmp_path), Sink("tcp", tmp_path)
    taken = pump(source.fd, region, len(DATA), timeout=30)
    given = pump(region, sink.fd, timeout=30)
    source.close()
    assert sink.received() == DATA
    assert (taken.received, taken.path) == (len(DATA), "take")
    assert (given.copied, given.path) == (len(DATA), "give")
    place = bytearray(len(DATA))
    assert pump(region, place).copied == len(DATA) and place == DATA
    region.close()


def test_strict_refuses_to_write_from_memory_before_a_byte_has_moved(tmp_path):
    sink = Sink("pipe", tmp_path)
    with pytest.raises(WouldCopy) as refusal:
        pump(DATA, sink.fd, strict=True)
    assert refusal.value.moved == 0
    assert sink.received() == b""


def test_a_source_that_ends_before_the_count_is_told_with_what_it_had(tmp_path):
    source, sink = Source("pipe", b"abc", tmp_path), Sink("file", tmp_path)
    with pytest.raises(ShortSource) as short:
        pump(source.fd, sink.fd, 10)
    assert (short.value.moved, short.value.side) == (3, "source")
    assert isinstance(short.value, EOFError)
    source.close()
    assert sink.received() == b"abc"


def test_a_python_file_starts_at_its_tell_and_ends_where_the_bytes_do(tmp_path):
    (tmp_path / "a").write_bytes(DATA)
    with open(tmp_path / "a", "rb") as a, open(tmp_path / "b", "wb") as b:
        assert a.read(10) == DATA[:10]
        b.write(b"head ")
        result = pump(a, b, 1000, strict=True)
        assert (a.tell(), b.tell()) == (1010, 1005)
        assert a.read(5) == DATA[1010:1015]
        b.write(b" tail")
    assert (tmp_path / "b").read_bytes() == b"head " + DATA[10:1010] + b" tail"
    assert result.moved == 1000


def test_a_text_file_is_pumped_as_bytes_unless_text_was_decoded(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    with open(tmp_path / "a") as a, open(tmp_path / "b", "w") as b:
        b.write("zero\n")
        assert pump(a, b).bytes == 8
    assert (tmp_path / "b").read_text() == "zero\none\ntwo\n"
    with open(tmp_path / "a") as a, open(tmp_path / "b", "w") as b:
        a.readline()
        with pytest.raises(TypeError, match=r"\.buffer"):
            pump(a, b)
    with pytest.raises(TypeError, match="bytes"):
        pump(io.StringIO("text"), bytearray(4))


def test_a_temporary_file_is_the_file_it_wraps():
    with tempfile.NamedTemporaryFile() as a, tempfile.TemporaryFile() as b:
        a.write(DATA)
        a.seek(0)
        assert pump(a, b, strict=True).moved == len(DATA)
        b.seek(0)
        assert b.read() == DATA


def test_objects_that_have_only_their_own_methods(tmp_path):
    into = io.BytesIO()
    source = Source("pipe", DATA, tmp_path)
    result = pump(source.fd, into, timeout=30)
    source.close()
    assert into.getvalue() == DATA and (result.path, result.copied) == ("object", len(DATA))
    sink = Sink("tcp", tmp_path)
    into.seek(1)
    assert pump(into, sink.fd, 1000).copied == 1000
    assert sink.received() == DATA[1:1001]
    assert into.tell() == 1001


def test_a_file_object_goes_on_behind_what_was_pumped_by_an_objects_methods(tmp_path):
    path = tmp_path / "file"
    with open(path, "w+b") as file:
        file.write(b"head ")
        pump(io.BytesIO(b"middle "), file)
        file.write(b"tail")
        file.seek(0)
        into = io.BytesIO()
        assert pump(file, into, 5).bytes == 5
        assert (into.getvalue(), file.read()) == (b"head ", b"middle tail")


def test_memory_that_an_object_is_pumped_to_is_filled_and_nothing_more_is_taken():
    source, place = io.BytesIO(DATA), bytearray(1000)
    assert pump(source, place).bytes == 1000
    assert place == DATA[:1000] and source.tell() == 1000
    with pytest.raises(ValueError, match="dst has 1000 bytes"):
        pump(source, place, 1001)
    with pytest.raises(TypeError, match="writable, contiguous"):
        pump(source, bytes(4))
    assert source.tell() == 1000


@pytest.mark.parametrize(
    "options",
    [
        {"count": -1},
        {"rate": 0},
        {"rate": -1.0},
        {"rate": float("nan")},
        {"offset_src": 1},
        {"offset_dst": 1},
    ],
)
@pytest.mark.parametrize("src", [b"bytes", io.BytesIO(b"bytes")])
def test_what_makes_no_sense_for_an_objects_methods_is_refused(src, options):
    into = io.BytesIO()
    with pytest.raises(ValueError, match=next(iter(options))):
        pump(src, into, **options)
    assert into.getvalue() == b""


def test_an_interrupt_of_a_pump_by_an_objects_methods_tells_what_went_and_what_is_held():
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    near, far = socket.socketpair()
    source = io.BytesIO(8 * DATA)
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Stop) as stopped:
            pump(source, near)
    finally:
        signal.signal(signal.SIGALRM, before)
    near.close()
    with far, far.makefile("rb") as file:
        came = file.read()
    told = stopped.value
    assert 0 < told.moved == len(came) and told.stranded == len(told.stranded_bytes) > 0
    assert came + told.stranded_bytes == (8 * DATA)[: source.tell()]


def test_a_file_can_be_pumped_behind_its_own_end_and_not_over_itself(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"twelve bytes")
    with open(path, "rb") as source, open(path, "ab") as sink:
        assert pump(source, sink).bytes == 12
    assert path.read_bytes() == 2 * b"twelve bytes"
    with open(path, "rb") as source, open(path, "r+b") as sink, pytest.raises(ValueError, match="overlap"):
        pump(source, sink, offset_dst=5)


@pytest.mark.parametrize("strict", [False, True])
def test_a_rate_is_kept_and_progress_told(tmp_path, strict):
    seen = []
    sink = Sink("pipe", tmp_path)
    with open("/dev/zero", "rb", buffering=0) as zero:
        result = pump(zero, sink.fd, 600_000, rate="2MB", progress=seen.append, strict=strict)
    assert sink.received() == bytes(600_000)
    assert result.seconds >= 0.2
    assert seen and all(one.bytes < other.bytes for one, other in pairwise(seen))


def test_what_progress_raises_comes_through_with_what_had_moved(tmp_path):
    def stop(result):
        raise BrokenPipeError("the display is gone")

    with (
        open("/dev/zero", "rb", buffering=0) as zero,
        open("/dev/null", "wb", buffering=0) as null,
        pytest.raises(BrokenPipeError, match="display") as stopped,
    ):
        pump(zero, null, progress=stop)
    assert not isinstance(stopped.value, PumpError)
    assert stopped.value.moved > 0 and stopped.value.stranded == len(stopped.value.stranded_bytes)


def test_a_stall_is_told_from_slowness(tmp_path):
    reader, writer = os.pipe()
    sink = Sink("pipe", tmp_path)
    os.write(writer, b"some")
    with pytest.raises(PumpTimeout) as stalled:
        pump(reader, sink.fd, stall_timeout=0.1)
    assert (stalled.value.moved, stalled.value.side) == (4, "source")
    assert isinstance(stalled.value, TimeoutError)
    assert sink.received() == b"some"
    slow = pump(b"12345678", bytearray(8), rate=20, stall_timeout=0.01)
    assert slow.seconds > 0.2
    os.close(reader)
    os.close(writer)


def test_a_descriptor_that_is_closed_and_means_another_file_gets_no_byte(tmp_path):
    """Another thread closes the sink while it is full; its number then means a stranger's file."""
    import threading

    near, far = socket.socketpair()
    fd = near.detach()
    gone = threading.Event()

    def swap():
        stranger = os.open(tmp_path / "stranger", os.O_WRONLY | os.O_CREAT)
        os.dup2(stranger, fd)
        os.close(stranger)
        far.close()
        gone.set()

    timer = threading.Timer(0.3, swap)
    timer.start()
    with (
        open("/dev/zero", "rb", buffering=0) as zero,
        pytest.raises(PumpError, match="another file") as stopped,
    ):
        pump(zero, fd, timeout=20)
    assert gone.wait(5)
    timer.join()
    assert stopped.value.side == "sink"
    assert os.fstat(fd).st_size == 0
    os.close(fd)
