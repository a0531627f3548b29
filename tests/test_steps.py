"""Steps: a transfer that never sleeps for a side, says what it wants, and borrows its pipe."""

import errno
import fcntl
import itertools
import os
import socket
import threading
from contextlib import ExitStack, suppress

import pytest
from counts import nothing_left
from ends import shrink
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosys._splice import pipe_capacity
from zerosys._steps import Stage, Steps

DATA = bytes(range(251)) * 4000


def streams():
    """Two connections, ours in the middle: (feeding, source, sink, draining), all non-blocking."""
    feeding, source = socket.socketpair()
    sink, draining = socket.socketpair()
    for end in (feeding, source, sink, draining):
        end.setblocking(False)
    return feeding, source, sink, draining


@pytest.fixture
def line():
    ends = streams()
    with nothing_left():
        yield ends
    for end in ends:
        end.close()


def fill(sock):
    """Send until the kernel takes no more; what was sent."""
    sent = 0
    try:
        while True:
            sent += sock.send(DATA[sent % 251 : sent % 251 + 100_000])
    except BlockingIOError:
        return sent


def took(sock):
    parts = []
    try:
        while part := sock.recv(1 << 20):
            parts.append(part)
    except BlockingIOError:
        pass
    return b"".join(parts)


def expected(n):
    """What fill() has sent, when it had sent *n*."""
    return (DATA * (n // len(DATA) + 1))[:n]


def blocked(steps, feeding):
    """Feed and step until the sink blocks; how much was fed."""
    fed = 0
    while True:
        try:
            fed += feeding.send(expected(fed + 50_000)[fed:])
        except BlockingIOError:
            pass
        if steps.step() == "sink":
            return fed


def test_it_asks_for_a_pipe_then_for_the_source_and_is_done_at_its_end(line):
    feeding, source, sink, draining = line
    steps = Steps(source, sink)
    assert (steps.kinds, steps.transfer.path) == (("socket", "socket"), "splice-pipe-splice")
    assert steps.step() == "pipe"
    stage = Stage()
    steps.lend(stage)
    assert (steps.step(), steps.transfer.side) == ("source", "source")
    feeding.send(b"twelve bytes")
    assert steps.step() == "source"
    assert draining.recv(100) == b"twelve bytes"
    feeding.shutdown(socket.SHUT_WR)
    assert steps.step() is None
    assert (steps.transfer.moved, steps.transfer.copied, steps.transfer.stranded) == (12, 0, 0)
    assert steps.take_back() is stage
    steps.close()
    stage.close()


def test_a_pipe_taken_back_from_a_blocked_sink_is_empty_and_its_bytes_arrive_as_copies(line):
    feeding, source, sink, draining = line
    steps, stage = Steps(source, sink), Stage()
    steps.lend(stage)
    fed = blocked(steps, feeding)
    held = steps.transfer.stranded
    assert held > 0
    assert steps.take_back() is stage
    reader, writer = os.pipe()
    other = Steps(b"", writer)  # whoever borrows it next finds nothing in it
    other.lend(stage)
    assert other.transfer.take_stranded() == b""
    assert other.take_back() is stage
    other.close()
    os.close(reader)
    os.close(writer)
    got = b""
    while steps.transfer.stranded:
        got += took(draining)
        steps.step()
    got += took(draining)
    assert steps.transfer.copied == held
    assert got == expected(fed)[: len(got)]
    steps.close()
    stage.close()


def test_after_a_park_it_splices_again(line):
    feeding, source, sink, draining = line
    steps, stage = Steps(source, sink), Stage()
    steps.lend(stage)
    fed = blocked(steps, feeding)
    steps.take_back()
    got, parked = b"", steps.transfer.stranded
    feeding.shutdown(socket.SHUT_WR)
    while (outcome := steps.step()) is not None:
        if outcome == "pipe":
            steps.lend(stage)
        got += took(draining)
    got += took(draining)
    assert got == expected(fed)
    assert (steps.transfer.copied, steps.transfer.moved) == (parked, fed - parked)
    assert steps.transfer.path == "splice-pipe-splice"
    steps.take_back()
    steps.close()
    stage.close()


def test_what_was_read_before_goes_first_and_counts_as_copied(line):
    feeding, source, sink, draining = line
    feeding.send(b" and the rest")
    steps, stage = Steps(source, sink, 17, before=b"the head"), Stage()
    assert steps.transfer.stranded == 8
    assert steps.step() == "pipe"
    steps.lend(stage)
    assert steps.step() is None
    assert draining.recv(100) == b"the head and the "[:17]
    assert (steps.transfer.copied, steps.transfer.moved) == (8, 9)
    steps.close()


def test_what_was_read_before_goes_into_memory_at_its_start(line):
    feeding, source, *_ = line
    feeding.send(b"rest")
    place = bytearray(8)
    steps = Steps(source, place, before=b"head")
    assert steps.step() is None
    assert (place, steps.transfer.copied, steps.transfer.received) == (b"headrest", 4, 4)
    steps.close()


def test_more_read_before_than_asked_for_is_refused(line):
    with pytest.raises(ValueError, match="before has 4 bytes, more than the 3"):
        Steps(line[1], line[2], 3, before=b"head")


def test_a_rate_asks_for_time(line):
    feeding, source, sink, draining = line
    feeding.send(DATA[:1000])
    steps, stage = Steps(source, sink, rate=1000), Stage()
    steps.lend(stage)
    assert steps.step() == "time"
    assert 0 < steps.transfer.pause < 1
    assert steps.transfer.delivered < 1000
    steps.close()
    took(draining)


def test_a_turn_ends_with_nothing_staged():
    source, sink = open("/dev/zero", "rb", buffering=0), open("/dev/null", "wb", buffering=0)
    with source, sink:
        steps, stage = Steps(source, sink), Stage()
        steps.lend(stage)
        for turn in (steps.step, steps.slice):
            assert turn() == "working"
            assert steps.transfer.stranded == 0
        steps.close()


def test_a_slice_in_another_thread_can_be_stopped():
    with open("/dev/zero", "rb", buffering=0) as source, open("/dev/null", "wb", buffering=0) as sink:
        steps = Steps(source, sink)
        steps.lend(Stage())
        outcomes = []
        thread = threading.Thread(target=lambda: outcomes.append(steps.slice()))
        thread.start()
        steps.stop()
        thread.join()
        assert outcomes == ["working"]
        steps.close()


def test_strict_refuses_before_the_first_copy(line, tmp_path):
    feeding, source, sink, draining = line
    feeding.send(b"bytes")
    with open(tmp_path / "log", "ab", buffering=0) as log:
        steps = Steps(source, log, strict=True)
        steps.lend(Stage())
        with pytest.raises(OSError, match="strict refuses") as refusal:
            steps.step()
        assert (refusal.value.errno, refusal.value.reason) == (errno.EOPNOTSUPP, "copy")
        assert steps.transfer.take_stranded() == b""
        steps.close()
    assert source.recv(10) == b"bytes"  # it was not taken
    assert (tmp_path / "log").read_bytes() == b""
    steps = Steps(b"bytes", sink, strict=True)
    with pytest.raises(OSError, match="strict refuses"):
        steps.step()
    steps.close()
    assert took(draining) == b""
    with pytest.raises(OSError, match="read before"):
        Steps(source, sink, strict=True, before=b"ahead")


def test_a_refused_splice_falls_back_after_bytes_that_were_read_before(line, tmp_path):
    feeding, source, *_ = line
    feeding.send(b"spliced")
    feeding.shutdown(socket.SHUT_WR)
    with open(tmp_path / "log", "ab", buffering=0) as log:
        steps = Steps(source, log, before=b"not ")
        steps.lend(Stage())
        assert steps.step() is None
        assert (steps.transfer.path, steps.transfer.copied) == ("read-write", 11)
        steps.close()
    assert (tmp_path / "log").read_bytes() == b"not spliced"


def test_a_dead_sink_is_told_with_what_it_did_not_get():
    middle, sink = os.pipe()
    with open("/dev/zero", "rb", buffering=0) as source:
        steps = Steps(source, sink, 1 << 20)
        assert steps.step() == "sink"
        os.close(middle)
        with pytest.raises(BrokenPipeError):
            steps.step()
        assert steps.transfer.side == "sink"
        assert steps.transfer.delivered == pipe_capacity(sink)
        steps.close()
    os.close(sink)


def test_a_blocking_socket_is_blocking_again_after_close(line):
    feeding, source, sink, _ = line
    sink.setblocking(True)
    steps = Steps(source, sink)
    steps.step()
    assert os.get_blocking(sink.fileno()) is False
    steps.close()
    assert os.get_blocking(sink.fileno()) is True
    steps = Steps(source, sink, touch_flags=False)
    feeding.send(b"x")
    assert steps.step() == "source"
    assert os.get_blocking(sink.fileno()) is True
    assert (steps.transfer.path, steps.transfer.copied) == ("read-write", 1)
    steps.close()


def test_a_stage_is_a_private_pipe_of_about_the_size_asked():
    with nothing_left():
        stage = Stage(1 << 18)
        assert stage.size == 1 << 18
        stage.close()
        stage.close()
        assert stage.closed
        Stage()  # closes itself
    with pytest.raises(ValueError, match="at least 1"):
        Stage(0)


def test_misuse_is_named(line):
    _, source, sink, _ = line
    steps, stage = Steps(source, sink), Stage()
    steps.lend(stage)
    with pytest.raises(ValueError, match="lent already"):
        steps.lend(Stage())
    steps.close()
    with pytest.raises(ValueError, match="closed"):
        steps.step()
    with pytest.raises(ValueError, match="the stage is closed"):
        Steps(source, sink).lend(stage)
    with pytest.raises(OSError, match="src is not an open descriptor"):
        Steps(10**6, sink)
    with pytest.raises(TypeError, match="dst must be a writable"):
        Steps(source, b"bytes")
    reader, writer = os.pipe()
    with pytest.raises(ValueError, match="same pipe"):
        Steps(reader, writer)
    os.close(reader)
    os.close(writer)


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["feed", "drain", "park", "step"]),
        st.integers(2_000, 100_000),
        st.sampled_from([4000, 65536, 1 << 20]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400_000), st.sampled_from([4096, 65536, 1 << 20]), MOVES)
def test_every_byte_arrives_in_order_whatever_is_lent_and_taken_back(total, size, moves):
    """The moves come again and again until all is done; they end alone, since a "sink" is drained."""
    with ExitStack() as stack:
        feeding, source, sink, draining = map(stack.enter_context, streams())
        shrink(sink, draining)
        want, got, fed, outcome = expected(total), bytearray(), 0, ""
        steps, stage = Steps(source, sink), Stage(size)
        for move, most, lent in itertools.cycle(moves):
            if (move == "feed" or outcome == "source") and fed < total:
                with suppress(BlockingIOError):
                    fed += feeding.send(want[fed : fed + most])
            if fed == total:
                feeding.shutdown(socket.SHUT_WR)
            if move == "drain" or outcome == "sink":
                got += took(draining)
            if move == "park" and steps.staged and steps.transfer.stranded:
                assert steps.take_back() is stage
            outcome = steps.step()
            if outcome == "pipe":
                steps.lend(stage, lent)
            if outcome is None:
                break
        got += took(draining)
        assert bytes(got) == want
        assert (steps.transfer.delivered, steps.transfer.stranded) == (total, 0)
        steps.take_back()
        steps.close()
        stage.close()


def test_files_keep_their_offsets(tmp_path):
    (tmp_path / "a").write_bytes(DATA)
    with open(tmp_path / "a", "rb", buffering=0) as a, open(tmp_path / "b", "w+b", buffering=0) as b:
        steps = Steps(a, b, 1000, offset_src=500, offset_dst=10)
        steps.lend(Stage())
        assert steps.slice() is None
        steps.close()
        assert (a.tell(), b.tell()) == (0, 0)
        assert b.read() == bytes(10) + DATA[500:1500]
        with pytest.raises(ValueError, match="O_APPEND"):
            fcntl.fcntl(b, fcntl.F_SETFL, os.O_APPEND)
            Steps(a, b, offset_dst=3)


def test_a_pipe_at_one_end_needs_no_other(line):
    _, _, sink, draining = line
    reader, writer = os.pipe()
    os.write(writer, b"from a pipe")
    os.close(writer)
    steps = Steps(reader, sink)
    assert (steps.transfer.path, steps.step()) == ("splice", None)
    steps.close()
    os.close(reader)
    assert took(draining) == b"from a pipe"
