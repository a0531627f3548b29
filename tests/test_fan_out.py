"""pump() with a list of sinks: every living one gets every byte, or misses whole units that are counted."""

import os
import random
import socket
import struct
import time
from itertools import pairwise

import pytest
from ends import Background, Sink, Source, no_descriptor_left, read_all, shrink, tcp_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosys import PumpError, PumpTimeout, ShortSource, WouldCopy, pump
from zerosys._fanout import FanOut

DATA = random.Random(9).randbytes(1_000_003)


@pytest.mark.parametrize("pipe_size", [1, 1 << 20])
@pytest.mark.parametrize("source_kind", ["file", "pipe", "tcp", "unix"])
def test_every_kind_of_sink_gets_every_byte_and_the_source_is_drained_once(source_kind, pipe_size, tmp_path):
    with no_descriptor_left():
        source = Source(source_kind, DATA, tmp_path)
        sinks = [Sink(kind, tmp_path) for kind in ("file", "pipe", "tcp", "unix")]
        result = pump(source.fd, [sink.fd for sink in sinks], timeout=60, pipe_size=pipe_size, strict=True)
        assert [sink.received() == DATA for sink in sinks] == [True] * 4
        source.close()
    assert (result.bytes, result.path) == (len(DATA), "tee")
    assert [(one.moved, one.copied, one.dropped, one.error) for one in result.sinks] == [
        (len(DATA), 0, 0, None)
    ] * 4


def test_memory_and_what_cannot_be_spliced_are_copied_and_strict_refuses_them(tmp_path):
    sinks = [Sink("pipe", tmp_path), Sink("tcp", tmp_path)]
    fds = [sink.fd for sink in sinks]
    with open("/proc/self/status", "rb", buffering=0) as status:
        for source in (DATA, status):
            with pytest.raises(WouldCopy):
                pump(source, fds, strict=True)
        result = pump(DATA, fds, timeout=30)
    assert [(one.moved, one.copied) for one in result.sinks] == [(0, len(DATA))] * 2
    assert [sink.received() for sink in sinks] == [DATA, DATA]


def test_a_count_leaves_the_rest_in_the_source_and_a_short_source_is_told(tmp_path):
    reader, writer = os.pipe()
    os.write(writer, b"first second")
    sinks = [Sink("pipe", tmp_path), Sink("unix", tmp_path)]
    fds = [sink.fd for sink in sinks]
    pump(reader, fds, 6)
    assert os.read(reader, 20) == b"second"
    os.write(writer, b"abc")
    os.close(writer)
    with pytest.raises(ShortSource) as short:
        pump(reader, fds, 10)
    assert short.value.moved == 3
    os.close(reader)
    assert [sink.received() for sink in sinks] == [b"first abc"] * 2


def test_a_blocked_sink_holds_the_others_back_by_no_more_than_its_pipe(tmp_path):
    stuck, far = socket.socketpair()
    shrink(stuck, far)
    near, reading = socket.socketpair()
    collector = Background(read_all, reading.fileno())
    source = Source("pipe", DATA, tmp_path)
    with pytest.raises(PumpTimeout) as late:
        pump(source.fd, [stuck, near], timeout=0.5, pipe_size=1 << 16)
    ahead = late.value.result.sinks[1].bytes
    assert late.value.moved <= ahead <= late.value.moved + (1 << 16)
    assert late.value.result.sinks[0].bytes + late.value.result.sinks[0].stranded == late.value.moved
    near.close()
    assert len(collector.result()) == ahead
    source.close()
    for end in (stuck, far, reading):
        end.close()


def test_a_dead_sink_ends_alone_and_tells_what_it_had(tmp_path):
    dead, far = socket.socketpair()
    source, sink = Source("pipe", DATA, tmp_path), Sink("tcp", tmp_path)
    killer = Background(lambda: (far.recv(1000, socket.MSG_WAITALL), far.close()))
    result = pump(source.fd, [dead, sink.fd], timeout=30)
    killer.result()
    assert sink.received() == DATA
    source.close()
    assert result.sinks[1].error is None
    died = result.sinks[0].error
    assert isinstance(died, PumpError) and died.side == "sink" and died.errno in (32, 104)
    assert died.moved == result.sinks[0].bytes >= 1000
    assert DATA[died.moved :].startswith(died.stranded_bytes)
    dead.close()


def test_when_the_last_sink_is_dead_the_pump_ends(tmp_path):
    near, far = socket.socketpair()
    far.close()
    source = Source("pipe", DATA, tmp_path)
    with pytest.raises(PumpError) as stopped:
        pump(source.fd, [near], timeout=30)
    assert stopped.value.side == "sink" and stopped.value.result.sinks[0].error
    near.close()
    source.close()


def missing(got: bytes, unit: int) -> int:
    """How many of the numbered units are not in *got*; those that are must be whole and in order."""
    numbers = [struct.unpack_from("<Q", got, at)[0] for at in range(0, len(got), unit)]
    assert all(one < other for one, other in pairwise(numbers))
    return len(numbers)


@pytest.mark.parametrize("unit", [8, 24, 5000])
def test_a_slow_sink_misses_whole_units_and_every_one_is_counted(unit, tmp_path):
    units = 2_000_000 // unit
    data = b"".join(struct.pack("<Q", n) + bytes(unit - 8) for n in range(units))
    slow, far = socket.socketpair()
    shrink(slow, far)

    def read_slowly():
        parts = []
        while part := far.recv(3001):
            parts.append(part)
        return b"".join(parts)

    reader = Background(read_slowly)
    source, sink = Source("pipe", data, tmp_path), Sink("file", tmp_path)
    result = pump(source.fd, [slow, sink.fd], unit=unit, on_slow="drop", timeout=60, pipe_size=1 << 16)
    slow.close()
    got = reader.result()
    assert len(got) % unit == 0
    assert missing(got, unit) == units - result.sinks[0].dropped
    assert (result.sinks[0].dropped_bytes, result.sinks[0].bytes) == (len(data) - len(got), len(got))
    fast = sink.received()
    assert missing(fast, unit) == units - result.sinks[1].dropped
    source.close()
    far.close()


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=30),
    reads=st.lists(st.integers(1, 20_000), min_size=1, max_size=5),
    pipe_size=st.sampled_from([1, 8192, 1 << 20]),
    unit=st.sampled_from([1, 2, 7, 64, 4096, 10_000]),
    kinds=st.lists(st.sampled_from(["pipe", "unix", "slow"]), min_size=1, max_size=4),
    drop=st.booleans(),
    source_kind=st.sampled_from(["pipe", "unix"]),
)
def test_whatever_the_pieces_each_sink_has_a_subsequence_of_whole_units(
    sizes, reads, pipe_size, unit, kinds, drop, source_kind
):
    data = random.Random(len(sizes)).randbytes(sum(sizes))
    reader, writer = os.pipe() if source_kind == "pipe" else (end.detach() for end in socket.socketpair())

    def feed():
        at = 0
        for size in sizes:
            view = memoryview(data)[at : at + size]
            while view:
                view = view[os.write(writer, view) :]
            at += size
        os.close(writer)

    def collect(fd, slow):
        parts, turn = [], 0
        while part := os.read(fd, reads[turn % len(reads)] if slow else 1 << 16):
            parts.append(part)
            turn += 1
        os.close(fd)
        return b"".join(parts)

    nears, collectors = [], []
    for kind in kinds:
        if kind == "pipe":
            far, near = os.pipe()
        else:
            one, other = socket.socketpair()
            if kind == "slow":
                shrink(one, other)
            near, far = one.detach(), other.detach()
        nears.append(near)
        collectors.append(Background(collect, far, kind == "slow"))
    feeder = Background(feed)
    result = pump(
        reader, nears, timeout=30, pipe_size=pipe_size, unit=unit, on_slow="drop" if drop else "block"
    )
    feeder.result()
    assert result.bytes == len(data)
    for near in nears:
        os.close(near)
    for one, collector in zip(result.sinks, collectors, strict=True):
        got = collector.result()
        assert one.bytes == len(got) and one.error is None
        assert one.bytes + one.dropped_bytes == len(data)
        if one.dropped == 0:
            assert got == data
        at = 0
        for piece in (got[n : n + unit] for n in range(0, len(got), unit)):
            while data[at : at + unit] != piece:
                at += unit
                assert at < len(data)
            at += unit
    os.close(reader)


def test_a_file_that_read_ahead_gives_that_first(tmp_path):
    reader, writer = os.pipe()
    os.write(writer, b"head\nthe rest")
    os.close(writer)
    sinks = [Sink("pipe", tmp_path), Sink("unix", tmp_path)]
    with open(reader, "rb") as source:
        assert source.readline() == b"head\n"
        with pytest.raises(WouldCopy):
            pump(source, [sink.fd for sink in sinks], strict=True)
        result = pump(source, [sink.fd for sink in sinks])
    assert [sink.received() for sink in sinks] == [b"the rest"] * 2
    assert [(one.moved, one.copied) for one in result.sinks] == [(0, 8)] * 2


def test_flags_of_blocking_sockets_are_restored_and_idle_sinks_cost_nothing():
    import time

    near, far = tcp_pair()
    reader, writer = os.pipe()
    before = time.process_time()
    with pytest.raises(PumpTimeout):
        pump(reader, [near], timeout=1)
    assert time.process_time() - before < 0.1
    assert near.getblocking()
    for end in (near, far):
        end.close()
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("source_kind", ["pipe", "unix", "file"])
def test_after_a_stop_each_sink_goes_on_with_what_is_due_to_it_and_the_rest_goes_to_all(
    source_kind, tmp_path
):
    """Also where one was ahead of the others, whom the rest of the source was still to come to."""
    source = Source(source_kind, DATA, tmp_path)
    fast, slow = Sink("unix", tmp_path), tcp_pair()
    shrink(*slow)
    with pytest.raises(PumpTimeout) as stopped:
        pump(source.fd, [fast.fd, slow[0]], timeout=0.5, pipe_size=1 << 16)
    why = stopped.value
    for sink, due, had in zip((fast.fd, slow[0]), why.stranded_each, why.result.sinks, strict=True):
        assert had.bytes + len(due) == had.bytes + had.stranded == why.moved == why.result.bytes
        assert DATA[had.bytes : why.moved] == due
        if sink is slow[0]:
            reading = Background(read_all, slow[1].fileno())
        pump(due + why.stranded_bytes, sink, timeout=30)
    rest = pump(source.fd, [fast.fd, slow[0]], timeout=30)
    assert why.moved + len(why.stranded_bytes) + rest.bytes == len(DATA)
    slow[0].close()
    assert fast.received() == reading.result() == DATA
    slow[1].close()
    source.close()


def test_a_fan_out_that_has_caught_up_runs_on(tmp_path):
    source, fast, slow = Source("pipe", DATA, tmp_path), Sink("unix", tmp_path), tcp_pair()
    shrink(*slow)
    with FanOut(source.fd, [fast.fd, slow[0]], pipe_size=1 << 16) as fan:
        with pytest.raises(TimeoutError):
            fan.run(0.3)
        before = fan.taken
        fan.catch_up()
        assert [sum(fan.branch(n)[:2]) + fan.branch(n)[3] for n in range(2)] == [fan.taken] * 2
        assert fan.taken > before
        fan.catch_up()  # there is nothing more
        reading = Background(read_all, slow[1].fileno())
        assert fan.run(30) == len(DATA)
    slow[0].close()
    assert fast.received() == reading.result() == DATA
    slow[1].close()
    source.close()


@pytest.mark.parametrize("source_kind", ["pipe", "unix"])
def test_no_byte_is_lost_or_twice_wherever_it_is_stopped(source_kind, tmp_path):
    source = Source(source_kind, DATA, tmp_path)
    pairs = [tcp_pair(), socket.socketpair(), tcp_pair()]
    for pair in pairs[::2]:
        shrink(*pair)
    reading = [Background(read_slowly, far, 0.001 * number) for number, (_, far) in enumerate(pairs)]
    sinks, gone, stops, limit = [near for near, _ in pairs], 0, 0, 0.0
    while gone < len(DATA):
        try:
            gone += pump(source.fd, sinks, timeout=limit, pipe_size=1 << 14).bytes
        except PumpTimeout as stopped:
            for sink, due in zip(sinks, stopped.stranded_each, strict=True):
                pump(due + stopped.stranded_bytes, sink, timeout=30)
            gone, stops = gone + stopped.moved + len(stopped.stranded_bytes), stops + 1
        limit = (limit + 0.0007) % 0.02
    for sink in sinks:
        sink.close()
    assert [one.result() for one in reading] == [DATA] * 3 and stops
    for _, far in pairs:
        far.close()
    source.close()


def read_slowly(sock, pause):
    got = b""
    while part := sock.recv(20_000):
        got += part
        time.sleep(pause)
    return got
