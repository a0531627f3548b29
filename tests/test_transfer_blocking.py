"""Transfer when a side blocks: timeouts, signals, flags of descriptors, and processor time."""

import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from ends import Background, Sink, Source, read_all, shrink, tcp_pair

from zerosys._splice import pipe_capacity
from zerosys._transfer import Transfer

DATA = random.Random(6).randbytes(200_003)


def non_blocking(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)


@pytest.fixture
def narrow():
    """A blocking socket and its far side, which hold little and drain without TCP's timers."""
    near, far = socket.socketpair()
    shrink(near, far)
    yield near, far
    near.close()
    far.close()


@pytest.mark.parametrize("pair", [tcp_pair, socket.socketpair])
def test_a_slow_reader_behind_a_tiny_socket_buffer_gets_every_byte(pair, tmp_path):
    near, far = pair()
    shrink(near, far)
    source = Source("file", DATA, tmp_path)

    def read_slowly():
        parts = []
        while part := far.recv(1000):
            parts.append(part)
        return b"".join(parts)

    reader = Background(read_slowly)
    with Transfer(source.fd, near) as transfer:
        assert transfer.run(timeout=30) == len(DATA)
    near.shutdown(socket.SHUT_WR)
    assert reader.result() == DATA
    source.close()
    near.close()
    far.close()


@pytest.mark.parametrize("kind", ["file", "pipe", "tcp"])
def test_a_timeout_keeps_the_progress_and_the_next_run_goes_on(kind, narrow, tmp_path):
    near, far = narrow
    source = Source(kind, DATA, tmp_path)
    with Transfer(source.fd, near) as transfer:
        with pytest.raises(TimeoutError) as late:
            transfer.run(timeout=0.1)
        assert late.value.side == transfer.side == "sink"
        assert late.value.moved == transfer.delivered > 0
        assert late.value.stranded == transfer.stranded
        reader = Background(read_all, far.fileno())
        assert transfer.run(timeout=30) == len(DATA)
    near.shutdown(socket.SHUT_WR)
    assert reader.result() == DATA
    source.close()


def test_a_source_that_says_nothing_times_out_on_its_own_account(tmp_path):
    reader, writer = os.pipe()
    quiet, peer = socket.socketpair()
    sink = Sink("tcp", tmp_path)
    for source in (reader, quiet):
        for end in (sink.fd, bytearray(10)):
            with Transfer(source, end) as transfer, pytest.raises(TimeoutError) as late:
                transfer.run(timeout=0)
            assert (late.value.side, late.value.moved) == ("source", 0)
    for fd in (reader, writer, quiet.detach(), peer.detach()):
        os.close(fd)
    assert sink.received() == b""


def test_a_transfer_that_never_blocks_ends_at_its_timeout_too():
    with open("/dev/zero", "rb", buffering=0) as zero, open("/dev/null", "wb", buffering=0) as null:
        with Transfer(zero, null) as transfer, pytest.raises(TimeoutError) as late:
            transfer.run(timeout=0.1)
        assert late.value.moved == transfer.delivered > 0 and late.value.side is None


def test_a_full_pipe_does_not_block_a_transfer_from_memory():
    reader, writer = os.pipe()
    room = pipe_capacity(writer)
    with Transfer(bytes(4 * room), writer) as transfer, pytest.raises(TimeoutError) as late:
        transfer.run(timeout=0.1)
    assert (late.value.moved, late.value.side) == (room, "sink")
    os.close(reader)
    os.close(writer)


def test_a_pipe_full_of_single_bytes_costs_no_processor_time_while_the_sink_pauses(narrow):
    """Sixteen 1-byte pieces fill a 64 KiB pipe: EAGAIN says neither that nor who blocks."""
    near, far = narrow
    near.setblocking(False)
    while True:  # nothing more fits: the sink pauses
        try:
            near.send(bytes(1000))
        except BlockingIOError:
            break
    reader, writer = os.pipe()
    for byte in DATA[:16]:
        os.write(writer, bytes([byte]))
    with Transfer(reader, near) as direct:
        before = time.process_time()
        with pytest.raises(TimeoutError):
            direct.run(timeout=1)
        spent = time.process_time() - before
        assert spent < 0.1
        os.close(writer)
        collector = Background(read_all, far.fileno())
        direct.run(timeout=30)
    near.shutdown(socket.SHUT_WR)
    assert collector.result()[-16:] == DATA[:16]
    os.close(reader)


def test_waiting_for_a_source_in_single_bytes_does_not_spin(tmp_path):
    """A stream of 1-byte pieces through a private pipe: as many system calls as pieces."""
    near, far = tcp_pair()
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sink = Sink("tcp", tmp_path)
    with Transfer(far, sink.fd, pipe_size=4096) as transfer:
        for byte in DATA[:50]:
            near.send(bytes([byte]))
        with pytest.raises(TimeoutError) as late:
            before = time.process_time()
            transfer.run(timeout=0.5)
        assert time.process_time() - before < 0.1
        assert (late.value.side, late.value.moved) == ("source", 50)
        near.close()
        transfer.run(timeout=30)
    far.close()
    assert sink.received() == DATA[:50]


def test_small_messages_are_not_held_back():
    """SPLICE_F_MORE would hold each back for 200 ms: five rounds, 1 s against under 0.1 s."""
    client, server = tcp_pair()
    reader, writer = os.pipe()
    with Transfer(reader, server) as transfer:
        relay = Background(transfer.run, 30)
        started = time.monotonic()
        for _ in range(5):
            os.write(writer, b"hello")
            assert client.recv(5, socket.MSG_WAITALL) == b"hello"
        assert time.monotonic() - started < 0.5
        os.close(writer)
        assert relay.result() == 25
    os.close(reader)
    client.close()
    server.close()


@pytest.mark.parametrize("source_kind", ["file", "pipe"])
@pytest.mark.parametrize("blocking", [True, False])
def test_the_sinks_flags_are_as_before_however_a_run_ends(source_kind, blocking, narrow, tmp_path):
    near, far = narrow
    near.setblocking(blocking)
    source = Source(source_kind, DATA, tmp_path)
    with Transfer(source.fd, near) as transfer:
        with pytest.raises(TimeoutError):
            transfer.run(timeout=0.05)
        assert non_blocking(near.fileno()) is not blocking
        far.close()
        with pytest.raises(ConnectionError):
            transfer.run(timeout=30)
        assert non_blocking(near.fileno()) is not blocking
    source.close()


@pytest.mark.parametrize("source_kind", ["file", "pipe", "unix"])
def test_flags_are_not_touched_when_told_so_and_the_bytes_count_as_copied(source_kind, narrow, tmp_path):
    near, far = narrow
    source = Source(source_kind, DATA, tmp_path)
    with Transfer(source.fd, near, touch_flags=False) as transfer:
        running = Background(transfer.run, 30)
        while transfer.delivered == 0:
            pass
        assert not non_blocking(near.fileno())  # in the midst of it: nobody reads yet
        reader = Background(read_all, far.fileno())
        running.result()
    near.shutdown(socket.SHUT_WR)
    assert reader.result() == DATA
    assert (transfer.moved, transfer.copied, transfer.path) == (0, len(DATA), "read-write")
    source.close()


IN_CHILD = """
import os, sys
from zerosys._transfer import Transfer
with open(sys.argv[1], "rb") as source, Transfer(source, 1) as transfer:
    transfer.run(timeout=30)
print(os.get_blocking(1), transfer.copied, transfer.path, file=sys.stderr)
"""


def test_a_standard_descriptor_is_never_made_non_blocking(narrow, tmp_path):
    near, far = narrow
    (tmp_path / "data").write_bytes(DATA)
    reader = Background(read_all, far.fileno())
    child = subprocess.run(
        [sys.executable, "-c", IN_CHILD, tmp_path / "data"],
        stdout=near,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    near.shutdown(socket.SHUT_WR)
    assert reader.result() == DATA
    assert child.stderr.split() == ["True", str(len(DATA)), "read-write"]


def interrupt(transfer: Transfer) -> None:
    """Send SIGINT once the transfer has moved something, so while it runs."""
    while transfer.delivered == 0:
        pass
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.mark.untraced
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_ctrl_c_ends_a_blocked_run_and_tells_how_far_it_got(kind, narrow, tmp_path):
    near, far = narrow
    source = Source(kind, DATA, tmp_path)
    with Transfer(source.fd, near) as transfer:
        interrupter = Background(interrupt, transfer)
        with pytest.raises(KeyboardInterrupt) as stopped:
            transfer.run(timeout=20)
        interrupter.result()
        assert stopped.value.moved == transfer.delivered > 0
        assert stopped.value.stranded == transfer.stranded
        assert not non_blocking(near.fileno())
        reader = Background(read_all, far.fileno())
        assert transfer.run(timeout=30) == len(DATA)  # and nothing is lost
    near.shutdown(socket.SHUT_WR)
    assert reader.result() == DATA
    source.close()


@pytest.mark.untraced
def test_ctrl_c_ends_a_run_that_never_blocks():
    with open("/dev/zero", "rb", buffering=0) as zero, open("/dev/null", "wb", buffering=0) as null:
        with Transfer(zero, null) as transfer:
            interrupter = Background(interrupt, transfer)
            with pytest.raises(KeyboardInterrupt) as stopped:
                transfer.run(timeout=20)
            interrupter.result()
            assert stopped.value.moved == transfer.delivered > 0


def test_a_signal_whose_handler_returns_is_not_noticed(narrow, tmp_path):
    near, far = narrow
    source = Source("file", DATA, tmp_path)
    alarms = []
    former = signal.signal(signal.SIGALRM, lambda *_: alarms.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        with Transfer(source.fd, near) as transfer:
            with pytest.raises(TimeoutError):  # and the remaining time shrinks, or this never ends
                transfer.run(timeout=0.3)
            reader = Background(read_all, far.fileno())
            assert transfer.run(timeout=30) == len(DATA)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    near.shutdown(socket.SHUT_WR)
    assert reader.result() == DATA and alarms
    source.close()


def test_the_interpreter_runs_on_while_a_transfer_waits():
    reader, writer = os.pipe()
    place = bytearray(3)
    with Transfer(reader, place) as transfer:
        running = Background(transfer.run, 30)
        os.write(writer, b"abc")
        assert running.result() == 3 and place == b"abc"
    os.close(reader)
    os.close(writer)


def test_a_running_transfer_is_not_run_or_closed_by_another_thread():
    reader, writer = os.pipe()
    with Transfer(reader, bytearray(4)) as transfer:
        os.write(writer, b"a")
        running = Background(transfer.run, 30)
        while transfer.received == 0:
            pass  # until it runs, which its first byte shows
        with pytest.raises(ValueError, match="another thread"):
            transfer.run()
        with pytest.raises(ValueError, match="another thread"):
            transfer.close()
        os.write(writer, b"bcd")
        assert running.result() == 4
    os.close(reader)
    os.close(writer)


def test_a_relay_both_ways_keeps_its_timeout_when_one_way_has_ended():
    near, left = tcp_pair()
    right, far = tcp_pair()
    with near, left, right, far, Transfer(left, right) as there, Transfer(right, left) as back:
        first = Background(there.run)
        while not non_blocking(right.fileno()):
            pass
        second = Background(back.run, 1)
        while not non_blocking(left.fileno()):
            pass
        near.shutdown(socket.SHUT_WR)
        assert first.result() == 0
        assert not non_blocking(right.fileno())  # the flag that the second saw when it began
        far.send(b"x")
        with pytest.raises(TimeoutError, match="the source had nothing more"):
            second.result()
        assert back.delivered == 1
