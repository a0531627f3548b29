"""Whatever the ends, the sizes, the pauses, the signals and the deaths: every byte is accounted for."""

import fcntl
import os
import random
import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

from counts import nothing_left
from ends import Background, read_all, shrink, tcp_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosys import PumpError, PumpTimeout, pump, relay

KINDS = st.sampled_from(["pipe", "unix", "narrow", "tcp"])
SIZES = st.sampled_from([0, 1, 4095, 4096, 65_537, 300_001])


def both_ends(kind: str) -> tuple[int, int]:
    """The reading and the writing end of a way."""
    if kind == "pipe":
        return os.pipe()
    one, other = tcp_pair() if kind == "tcp" else socket.socketpair()
    if kind == "narrow":
        shrink(other, one)
    return one.detach(), other.detach()


def flags(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_GETFL)


def feed(fd: int, data: bytes, pauses: list[int]) -> None:
    """Write *data* in pieces of those sizes, with a moment between, then end; give up if nobody reads."""
    at = turn = 0
    try:
        while at < len(data):
            at += os.write(fd, data[at : at + pauses[turn % len(pauses)]])
            turn += 1
            if turn % 7 == 0:
                time.sleep(0.0005)
    except OSError:
        pass
    finally:
        os.close(fd)


def drain(fd: int, most: int | None) -> bytes:
    """Read to the end, or *most* bytes and then die."""
    got = b""
    while (most is None or len(got) < most) and (
        part := os.read(fd, 8192 if most is None else min(8192, most - len(got)))
    ):
        got += part
    os.close(fd)
    return got


@contextmanager
def signals(every: float):
    """A timer's signals while the block runs; the handler does nothing."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.tuples(KINDS, KINDS),
    size=SIZES,
    pauses=st.lists(st.sampled_from([1, 100, 5000, 70_000]), min_size=1, max_size=4),
    pipe_size=st.sampled_from([1, 8192, 1 << 20]),
    blocking=st.tuples(st.booleans(), st.booleans()),
    touch=st.booleans(),
    stable=st.booleans(),
    spin=st.sampled_from([0, 0.0005]),
    dies_after=st.one_of(st.none(), st.integers(1, 200_000)),
    interrupted=st.booleans(),
)
def test_every_byte_is_accounted_for(
    kinds, size, pauses, pipe_size, blocking, touch, stable, spin, dies_after, interrupted
):
    size = min(size, 3000 * min(pauses))  # single bytes are slow
    data = random.Random(size).randbytes(size)
    with nothing_left(), ExitStack() as stack:
        source, feeding = both_ends(kinds[0])
        far, sink = both_ends(kinds[1])
        for fd, blocks in zip((source, sink), blocking, strict=True):
            stack.callback(os.close, fd)
            os.set_blocking(fd, blocks)
        before = flags(source), flags(sink)
        feeder = Background(feed, feeding, data, pauses)
        reader = Background(drain, far, dies_after)
        moved, stranded = size, b""
        with signals(0.001) if interrupted else ExitStack():
            try:
                result = pump(
                    source, sink, timeout=30, pipe_size=pipe_size, touch_flags=touch, stable=stable, spin=spin
                )
                assert result.bytes == result.moved + result.received + result.copied == size
            except PumpError as stopped:
                assert dies_after is not None and stopped.side == "sink", stopped
                assert not isinstance(stopped, PumpTimeout)
                moved, stranded = stopped.moved, stopped.stranded_bytes
        assert (flags(source), flags(sink)) == before
        os.set_blocking(source, True)
        rest = read_all(source)
        feeder.result()
        stack.close()
        got = reader.result()
    assert data.startswith(got) and len(got) <= moved
    assert data[:moved] + stranded + rest == data
    if dies_after is None:
        assert got == data


@settings(max_examples=20, deadline=None)
@given(
    tcp=st.booleans(),
    sizes=st.tuples(SIZES, SIZES),
    pipe_size=st.sampled_from([1, 1 << 20]),
    blocking=st.tuples(st.booleans(), st.booleans()),
    interrupted=st.booleans(),
)
def test_a_relay_delivers_both_ways_and_passes_both_ends_on(tcp, sizes, pipe_size, blocking, interrupted):
    forth, back = (random.Random(size).randbytes(size) for size in sizes)
    pair = tcp_pair if tcp else socket.socketpair
    with nothing_left():
        (client, a), (b, server) = pair(), pair()
        a.setblocking(blocking[0])
        b.setblocking(blocking[1])

        def talk(sock, says):
            sender = threading.Thread(target=lambda: (sock.sendall(says), sock.shutdown(socket.SHUT_WR)))
            sender.start()
            got = read_all(sock.fileno())
            sender.join()
            return got

        talkers = Background(talk, client, forth), Background(talk, server, back)
        with signals(0.001) if interrupted else ExitStack():
            result = relay(a, b, timeout=30, pipe_size=pipe_size)
        assert (talkers[0].result(), talkers[1].result()) == (back, forth)
        assert (result.forth.bytes, result.back.bytes) == sizes
        assert (a.getblocking(), b.getblocking()) == blocking
        for end in (client, a, b, server):
            end.close()


def test_a_thousand_pumps_leave_nothing(tmp_path):
    (tmp_path / "file").write_bytes(bytes(5000))
    near, far = socket.socketpair()
    with near, far, open(tmp_path / "file", "rb") as file, nothing_left():
        for _ in range(1000):
            pump(file, near, offset_src=0)
            assert len(far.recv(5000, socket.MSG_WAITALL)) == 5000
