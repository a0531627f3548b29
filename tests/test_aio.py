"""Pumps on asyncio and uvloop: every pair of ends, limits, errors, cancelling with the progress kept."""

import array
import asyncio
import fcntl
import io
import os
import pty
import socket
import termios
import threading
import time

import pytest
from counts import nothing_left
from ends import Sink, Source
from loops import close, on_both_loops, read_all, send_all, stalled, streams

from zerosys import PumpError, PumpTimeout, ShortSource, WouldCopy
from zerosys.pumps import aio

DATA = bytes(range(251)) * 12_000
KINDS = ("file", "pipe", "unix", "tcp")


def unread(sock):
    """Bytes that wait in *sock* to be read."""
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    return count[0]


@on_both_loops
@pytest.mark.parametrize("sink_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
def test_every_byte_of_any_source_reaches_any_sink(run, source_kind, sink_kind, tmp_path):
    with nothing_left():
        source, sink = Source(source_kind, DATA, tmp_path), Sink(sink_kind, tmp_path)
        result = run(aio.pump(source.fd, sink.fd))
        assert sink.received() == DATA
        source.close()
    assert result.bytes == result.moved == len(DATA)
    assert result.copied == 0


@on_both_loops
def test_memory_is_an_end_too(run):
    async def main():
        ((near, far),) = pairs = streams(1)
        place = bytearray(len(DATA))
        sent, got = await asyncio.gather(aio.pump(DATA, near), aio.pump(far, place))
        assert (sent.path, sent.copied, got.path, got.received) == ("give", len(DATA), "take", len(DATA))
        assert place == DATA
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
def test_a_count_offsets_and_a_position_of_a_file_object_are_kept(run, tmp_path):
    (tmp_path / "a").write_bytes(DATA)

    async def main():
        with open(tmp_path / "a", "rb") as a, open(tmp_path / "b", "w+b") as b:
            a.read(10)
            b.write(b"head")
            await aio.pump(a, b, "1KiB")
            assert (a.tell(), b.tell()) == (1034, 1028)
            await aio.pump(a, b, 100, offset_src=7, offset_dst=2000)
            assert (a.tell(), b.tell()) == (1034, 1028)
            b.seek(0)
            assert b.read() == b"head" + DATA[10:1034] + bytes(972) + DATA[7:107]

    run(main())


def test_devices_that_no_loop_can_watch_move_on_a_thread():
    async def main():
        with open("/dev/zero", "rb", buffering=0) as zero, open("/dev/null", "wb", buffering=0) as null:
            ticks = 0
            pump = asyncio.create_task(aio.pump(zero, null, 1 << 30))
            while not pump.done():
                ticks += 1
                await asyncio.sleep(0.001)
            assert (await pump).bytes == 1 << 30
            assert ticks > 2  # the loop went on

    asyncio.run(main())


def test_a_pseudo_file_that_cannot_be_spliced_is_read():
    async def main():
        ((near, far),) = pairs = streams(1)
        with open("/proc/self/cmdline", "rb", buffering=0) as source:
            result = await aio.pump(source, near)
        assert (result.path, result.copied) == ("read-write", result.bytes)
        with open("/proc/self/cmdline", "rb") as again:
            assert far.recv(1 << 16) == again.read()
        close(pairs)

    asyncio.run(main())


def test_a_terminal_is_watched():
    async def main():
        master, slave = pty.openpty()
        reader, writer = os.pipe()
        os.write(master, b"typed\n")
        result = await aio.pump(slave, writer, 6)
        assert os.read(reader, 100) == b"typed\n"
        assert result.bytes == 6
        for fd in (master, slave, reader, writer):
            os.close(fd)

    with nothing_left():
        asyncio.run(main())


# -- limits and refusals ------------------------------------------------------------------------


@on_both_loops
def test_a_timeout_tells_how_far_it_got_and_gives_what_is_stranded(run):
    async def main():
        (feeding, source), (sink, draining) = pairs = streams()
        feeding_task = asyncio.create_task(send_all(feeding, DATA))
        with pytest.raises(PumpTimeout, match=r"0\.3 s are over") as late:
            await aio.pump(source, sink, timeout=0.3)
        assert late.value.side == "sink"
        assert late.value.moved == unread(draining) > 0
        assert len(late.value.stranded_bytes) == late.value.stranded > 0
        got = b""
        while len(got) < late.value.moved:
            got += draining.recv(1 << 20)
        got += late.value.stranded_bytes
        assert got == DATA[: len(got)]
        feeding_task.cancel()
        await asyncio.wait([feeding_task])
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
def test_a_stall_is_told_from_slowness(run):
    async def main():
        (feeding, source), (sink, _) = pairs = streams()

        async def slowly():
            for _ in range(8):
                await asyncio.sleep(0.1)
                feeding.send(b"x")

        feeder = asyncio.create_task(slowly())
        with pytest.raises(PumpTimeout, match=r"nothing has moved for 0\.4 s") as late:
            await aio.pump(source, sink, stall_timeout=0.4)
        assert (late.value.moved, late.value.side) == (8, "source")
        await feeder
        close(pairs)

    run(main())


def test_a_rate_is_kept_and_progress_is_told():
    async def main():
        ((near, far),) = pairs = streams(1)
        reader = asyncio.create_task(read_all(far))
        seen = []
        began = time.monotonic()
        result = await aio.pump(DATA[:500_000], near, rate="1MB", progress=seen.append)
        took = time.monotonic() - began
        near.close()
        assert await reader == DATA[:500_000]
        assert result.bytes == 500_000
        assert took > 0.3  # half a second's worth, less what a tenth allows at once
        assert [one.bytes for one in seen] == sorted({one.bytes for one in seen})
        assert len(seen) >= 2
        close(pairs)

    asyncio.run(main())


def test_a_source_that_ends_early_is_an_error():
    async def main():
        ((near, far),) = pairs = streams(1)
        near.send(b"four")
        near.close()
        with pytest.raises(ShortSource) as short:
            await aio.pump(far, bytearray(10), 10)
        assert (short.value.moved, short.value.side) == (4, "source")
        close(pairs)

    asyncio.run(main())


def test_strict_refuses_before_the_first_copy(tmp_path):
    async def main():
        ((near, far),) = pairs = streams(1)
        near.send(b"bytes")
        with open(tmp_path / "log", "ab", buffering=0) as log, pytest.raises(WouldCopy) as refusal:
            await aio.pump(far, log, 5, strict=True)
        assert (refusal.value.moved, refusal.value.stranded_bytes) == (0, b"")
        assert far.recv(10) == b"bytes"  # it was not taken
        assert (tmp_path / "log").read_bytes() == b""
        with pytest.raises(WouldCopy):
            await aio.pump(b"memory", near, strict=True)
        close(pairs)

    with nothing_left():
        asyncio.run(main())


def test_an_appending_sink_is_written_and_said_so(tmp_path):
    async def main():
        ((near, far),) = pairs = streams(1)
        near.send(b" and more")
        near.close()
        (tmp_path / "log").write_bytes(b"before")
        with open(tmp_path / "log", "ab", buffering=0) as log:
            result = await aio.pump(far, log)
        assert (result.path, result.copied) == ("read-write", 9)
        assert (tmp_path / "log").read_bytes() == b"before and more"
        close(pairs)

    asyncio.run(main())


def test_what_only_its_methods_can_read_is_refused_with_the_way_out():
    async def main():
        with pytest.raises(TypeError, match=r"asyncio\.to_thread"):
            await aio.pump(io.BytesIO(b"bytes"), bytearray(5))

    with nothing_left():
        asyncio.run(main())


def test_a_file_onto_its_own_end_is_bounded_and_an_overlap_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"self")

    async def main():
        with open(tmp_path / "a", "r+b", buffering=0) as a:
            with pytest.raises(ValueError, match="overlap"):
                await aio.pump(a, a, offset_src=0, offset_dst=2)
            await aio.pump(a, a, offset_src=0, offset_dst=4)

    asyncio.run(main())
    assert (tmp_path / "a").read_bytes() == b"selfself"


# -- the sink dies ------------------------------------------------------------------------------


@on_both_loops
def test_a_dead_sink_is_told_from_a_dead_source_and_no_byte_is_lost(run):
    async def main():
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
        os.write(writer, DATA[:100_000])
        ((sink, far),) = pairs = streams(1)
        pump = asyncio.create_task(aio.pump(reader, sink))
        while not unread(far):
            await asyncio.sleep(0.01)
        far.recv(10_000)
        far.close()
        os.write(writer, DATA[:100_000])
        with pytest.raises(PumpError) as broken:
            await pump
        error = broken.value
        assert (error.side, type(error.__cause__)) == ("sink", type(None))
        os.set_blocking(reader, False)
        left = len(os.read(reader, 1 << 20)) if unread(reader) else 0
        assert error.moved + error.stranded + left == 200_000
        os.close(reader)
        os.close(writer)
        close(pairs)

    with nothing_left():
        run(main())


# -- cancelling ---------------------------------------------------------------------------------


@on_both_loops
def test_cancelling_keeps_the_progress_and_restores_the_flags(run):
    async def main():
        (feeding, source), (sink, draining) = pairs = streams()
        sink.setblocking(True)
        feeder = asyncio.create_task(send_all(feeding, DATA))
        pump = asyncio.create_task(aio.pump(source, sink))
        await stalled(pump, lambda: unread(draining))
        assert os.get_blocking(sink.fileno()) is False
        pump.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await pump
        assert os.get_blocking(sink.fileno()) is True
        assert stopped.value.moved == unread(draining)
        assert stopped.value.side == "sink"
        got = b""
        while len(got) < stopped.value.moved:
            got += draining.recv(1 << 20)
        got += stopped.value.stranded_bytes
        # The next one in this loop begins clean, where that one ended.
        again = asyncio.create_task(aio.pump(source, sink))
        got += await read_until(draining, len(DATA) - len(got))
        await feeder
        await again
        assert got == DATA
        close(pairs)

    with nothing_left():
        run(main())


async def read_until(sock, n):
    got = b""
    while len(got) < n:
        got += await asyncio.get_running_loop().sock_recv(sock, 1 << 18)
    return got


def test_cancelling_waits_for_the_thread_that_moves_a_file(tmp_path):
    async def main():
        with open("/dev/zero", "rb", buffering=0) as zero, open(tmp_path / "b", "wb", buffering=0) as b:
            pump = asyncio.create_task(aio.pump(zero, b, 1 << 40))
            await asyncio.sleep(0.1)
            pump.cancel()
            with pytest.raises(asyncio.CancelledError) as stopped:
                await pump
            size = os.fstat(b.fileno()).st_size
            assert stopped.value.moved == size > 0
            await asyncio.sleep(0.1)
            assert os.fstat(b.fileno()).st_size == size  # nobody writes on

    with nothing_left():
        asyncio.run(main())


def test_a_pump_that_is_cancelled_at_once_has_moved_nothing():
    async def main():
        (_, source), (sink, _) = pairs = streams()
        pump = asyncio.create_task(aio.pump(source, sink))
        await asyncio.sleep(0)
        pump.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await pump
        assert (stopped.value.moved, stopped.value.stranded) == (0, 0)
        close(pairs)

    with nothing_left():
        asyncio.run(main())


@on_both_loops
def test_pumps_cancelled_at_random_moments_account_for_every_byte(run):
    async def main():
        (feeding, source), (sink, draining) = pairs = streams()
        feeder = asyncio.create_task(send_all(feeding, DATA))
        got, delay = bytearray(), 0.0
        while len(got) < len(DATA):
            pump = asyncio.create_task(aio.pump(source, sink))
            await asyncio.sleep(delay)
            delay = (delay + 0.0003) % 0.002
            pump.cancel()
            try:
                result, stranded = await pump, b""
                moved = result.bytes
            except asyncio.CancelledError as stopped:
                # Before its first step it has nothing to tell.
                moved, stranded = getattr(stopped, "moved", 0), getattr(stopped, "stranded_bytes", b"")
            got += await read_until(draining, moved)
            got += stranded
        await feeder
        assert bytes(got) == DATA
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
def test_pipes_that_others_have_too_stay_blocking(run):
    async def main():
        (first, writer), (second, sink) = os.pipe(), os.pipe()
        for options in ({}, {"touch_flags": False}):
            pump = asyncio.create_task(aio.pump(first, sink, 1 << 17, **options))
            os.write(writer, bytes(1 << 16))
            await asyncio.sleep(0.05)
            os.write(writer, bytes(1 << 16))  # the way is full: both ends are waited for in turn
            await asyncio.sleep(0.05)
            assert [os.get_blocking(fd) for fd in (first, writer, second, sink)] == [True] * 4
            assert not pump.done()
            assert len(os.read(second, 1 << 17)) == 1 << 16
            assert (await pump).bytes == 1 << 17
            assert len(os.read(second, 1 << 17)) == 1 << 16
            assert [os.get_blocking(fd) for fd in (first, writer, second, sink)] == [True] * 4
        for fd in (first, writer, second, sink):
            os.close(fd)

    with nothing_left():
        run(main())


# -- the neighbours -----------------------------------------------------------------------------


@on_both_loops
def test_who_watches_the_same_socket_is_not_disturbed(run):
    async def main():
        (a, b), (c, d) = pairs = streams()
        loop, called = asyncio.get_running_loop(), []
        loop.add_reader(b.fileno(), lambda: called.append("reader") or loop.remove_reader(b.fileno()))
        there = asyncio.create_task(aio.pump(b, c, 5))
        back = asyncio.create_task(aio.pump(c, b, 5))
        await asyncio.sleep(0)
        a.send(b"there")
        d.send(b"back!")
        await there
        await back
        assert (d.recv(10), a.recv(10)) == (b"there", b"back!")
        a.send(b"once more")
        while not called:
            await asyncio.sleep(0.01)
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
def test_closing_an_end_meanwhile_pulls_nothing_from_under_it(run):
    async def main():
        (a, b), (c, d) = pairs = streams()
        pump = asyncio.create_task(aio.pump(b, c))
        await asyncio.sleep(0.01)
        number = b.fileno()
        b.close()
        stranger, other = socket.socketpair()
        assert number in (stranger.fileno(), other.fileno())
        a.send(b"ours")
        a.close()
        assert (await pump).bytes == 4
        assert d.recv(10) == b"ours"
        close([*pairs, (stranger, other)])

    run(main())


@on_both_loops
def test_an_idle_pump_costs_no_processor_time_and_no_thread(run):
    async def main():
        pairs = streams(40)
        pumps = [asyncio.create_task(aio.pump(pairs[n][1], pairs[n + 1][0])) for n in range(0, len(pairs), 2)]
        await asyncio.sleep(0.1)
        before, threads = time.process_time(), threading.active_count()
        await asyncio.sleep(1)
        assert time.process_time() - before < 0.1
        assert threading.active_count() == threads == 1
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)
        close(pairs)

    run(main())


def test_no_descriptors_left_is_an_error_and_no_hang():
    async def main():
        (_, source), (sink, _) = pairs = streams()
        pool = aio.PipePool(most=1)
        held = []
        try:
            while True:
                held.append(os.dup(0))
        except OSError:
            pass
        os.close(held.pop())
        os.close(held.pop())  # for the two ends, and none for a pipe
        with pytest.raises(OSError, match="Too many open files"):
            await aio.pump(source, sink, pool=pool)
        for fd in held:
            os.close(fd)
        assert pool.pipes == 0
        close(pairs)

    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, limits[1]))
    try:
        with nothing_left():
            asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_pool_wants_numbers_that_make_sense():
    with pytest.raises(ValueError, match="at least 1"):
        aio.PipePool(0)
    with pytest.raises(ValueError, match="at least 1"):
        aio.PipePool(pipe_size=0)
