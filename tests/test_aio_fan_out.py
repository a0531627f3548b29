"""One source to many sinks on an event loop: every byte, or counted whole units, and an end to it."""

import asyncio
import fcntl
import os
import socket
import struct
import time

import pytest
from counts import nothing_left
from ends import Background, Sink, Source, shrink
from ends import read_all as read_sync
from loops import close, on_both_loops, read_all, send_all, stalled, streams

from zerosys import PumpError, PumpTimeout, ShortSource, WouldCopy, pump
from zerosys.pumps import aio

DATA = bytes(range(251)) * 8_000
UNIT = 24


def numbered(units: int) -> bytes:
    return b"".join(struct.pack("<Q", n) + bytes(UNIT - 8) for n in range(units))


def whole_units(got: bytes) -> int:
    """How many units are in *got*, which must be whole and in order."""
    assert len(got) % UNIT == 0
    numbers = [struct.unpack_from("<Q", got, at)[0] for at in range(0, len(got), UNIT)]
    assert numbers == sorted(set(numbers))
    return len(numbers)


@on_both_loops
@pytest.mark.parametrize("source_kind", ["file", "pipe", "tcp", "unix"])
def test_every_kind_of_sink_gets_every_byte(run, source_kind, tmp_path):
    with nothing_left():
        source = Source(source_kind, DATA, tmp_path)
        sinks = [Sink(kind, tmp_path) for kind in ("file", "pipe", "tcp", "unix")]
        result = run(aio.pump(source.fd, [sink.fd for sink in sinks], strict=True, timeout=30))
        assert [sink.received() == DATA for sink in sinks] == [True] * 4
        source.close()
    assert (result.bytes, result.path) == (len(DATA), "tee")
    assert [(one.moved, one.copied, one.dropped) for one in result.sinks] == [(len(DATA), 0, 0)] * 4


@on_both_loops
def test_memory_and_what_streams_had_read_go_first_and_a_count_leaves_the_rest(run):
    async def main():
        pairs = streams(2)
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=near)
        far.send(b"line\nhead and tail")
        assert await reader.readline() == b"line\n"
        sinks = [one for one, _ in pairs]
        result = await aio.pump((reader, writer), sinks, 4)
        assert [(one.moved, one.copied) for one in result.sinks] == [(0, 4)] * 2
        assert [one.recv(100) for _, one in pairs] == [b"head"] * 2
        assert await reader.read(100) == b" and tail"
        result = await aio.pump(b"memory", sinks)
        assert [one.recv(100) for _, one in pairs] == [b"memory"] * 2
        with pytest.raises(WouldCopy):
            await aio.pump(b"memory", sinks, strict=True)
        far.close()
        with pytest.raises(ShortSource):
            await aio.pump((reader, writer), sinks, 10)
        writer.close()
        await writer.wait_closed()
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
def test_a_blocked_sink_holds_the_others_back_by_its_pipe_and_costs_no_time(run):
    async def main():
        (feeding, source), (stuck, far), (near, reading) = pairs = streams(3)
        shrink(stuck, far)
        feeder = asyncio.create_task(send_all(feeding, DATA))
        collector = asyncio.create_task(read_all(reading))
        began = time.process_time()
        with pytest.raises(PumpTimeout) as late:
            await aio.pump(source, [stuck, near], timeout=1, pipe_size=1 << 16)
        assert time.process_time() - began < 0.3
        slow, fast = late.value.result.sinks
        assert late.value.moved <= fast.bytes <= late.value.moved + (1 << 16)
        assert slow.bytes + slow.stranded == late.value.moved
        due = late.value.stranded_each
        assert DATA[slow.bytes : late.value.moved] == due[0] and len(due[0]) == slow.stranded
        feeder.cancel()
        near.shutdown(socket.SHUT_WR)
        assert await collector == DATA[: fast.bytes]
        await asyncio.wait([feeder])
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
def test_a_dead_sink_ends_alone_and_the_last_ends_the_pump(run):
    async def main():
        (feeding, source), (dead, far), (near, reading) = pairs = streams(3)
        far.close()
        collector = asyncio.create_task(read_all(reading))
        feeder = asyncio.create_task(send_all(feeding, DATA))
        result = await aio.pump(source, [dead, near], timeout=30)
        await feeder
        near.close()
        assert await collector == DATA
        assert (type(result.sinks[0].error), result.sinks[1].error) == (PumpError, None)
        with pytest.raises(PumpError) as last:
            await aio.pump(b"to nobody", [dead], timeout=30)
        assert (last.value.side, last.value.stranded_each) == ("sink", (b"to nobody",))
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
def test_a_slow_sink_misses_whole_units_and_every_one_is_counted(run):
    data = numbered(80_000)

    async def main():
        (feeding, source), (slow, far), (near, reading) = pairs = streams(3)
        shrink(slow, far)

        async def read_slowly():
            loop, parts = asyncio.get_running_loop(), []
            while part := await loop.sock_recv(far, 3001):
                parts.append(part)
                await asyncio.sleep(0)
            return b"".join(parts)

        collectors = [asyncio.create_task(read_slowly()), asyncio.create_task(read_all(reading))]
        feeder = asyncio.create_task(send_all(feeding, data))
        result = await aio.pump(
            source, [slow, near], unit=UNIT, on_slow="drop", timeout=30, pipe_size=1 << 16
        )
        await feeder
        slow.close()
        near.close()
        for one, collector in zip(result.sinks, collectors, strict=True):
            got = await collector
            assert whole_units(got) + one.dropped == len(data) // UNIT
            assert (one.bytes, one.dropped_bytes) == (len(got), len(data) - len(got))
        close(pairs)

    with nothing_left():
        run(main())


# -- the end of a dropping fan-out ----------------------------------------------------------------


@on_both_loops
def test_a_sink_that_takes_nothing_is_given_up_at_the_end_and_a_slow_one_is_not(run):
    data = numbered(10_000)

    async def main():
        (stuck, _), (slow, far) = pairs = streams(2)
        shrink(stuck, pairs[0][1])
        shrink(slow, far)

        async def read_slowly():
            loop, parts = asyncio.get_running_loop(), []
            while part := await loop.sock_recv(far, 30_000):
                parts.append(part)
                await asyncio.sleep(0.02)  # longer in all than a sink may take nothing
            return b"".join(parts)

        collector = asyncio.create_task(read_slowly())
        before = time.process_time()
        result = await aio.pump(data, [stuck, slow], unit=UNIT, on_slow="drop", linger=0.3, timeout=30)
        assert time.process_time() - before < 1
        given_up, awaited = result.sinks
        assert given_up.error.errno == 110 and given_up.error.stranded == given_up.stranded > 0
        assert given_up.bytes + given_up.stranded + given_up.dropped_bytes == len(data)
        assert awaited.error is None
        slow.close()
        assert whole_units(await collector) + awaited.dropped == 10_000
        close(pairs)

    with nothing_left():
        run(main())


def test_it_is_so_without_a_loop_too_and_a_blocking_fan_out_waits():
    (stuck, far), (near, reading) = pairs = [socket.socketpair() for _ in range(2)]
    shrink(stuck, far)
    data = numbered(20_000)
    collector = Background(read_sync, reading.fileno())
    result = pump(data, [stuck, near], unit=UNIT, on_slow="drop", linger=0.2, timeout=30)
    near.close()
    assert result.sinks[0].error.errno == 110 and result.sinks[1].error is None
    assert whole_units(collector.result()) + result.sinks[1].dropped == 20_000
    with pytest.raises(PumpTimeout) as late:
        pump(data, [stuck], timeout=0.4, linger=0.1)
    assert late.value.stranded_each[0] == data[late.value.result.sinks[0].bytes :]
    with pytest.raises(PumpError) as alone:
        pump(data, [stuck], on_slow="drop", unit=UNIT, timeout=30, linger=0.1)
    assert alone.value.side == "sink" and alone.value.result.sinks[0].error.errno == 110
    close(pairs)


# -- cancelling -----------------------------------------------------------------------------------


@on_both_loops
def test_cancelling_keeps_the_progress_of_each_and_the_flags(run):
    async def main():
        (feeding, source), (one, far), (other, away) = pairs = streams(3)
        one.setblocking(True)
        feeder = asyncio.create_task(send_all(feeding, DATA))
        seen = []
        task = asyncio.create_task(aio.pump(source, [one, other], progress=seen.append))
        await stalled(
            task, lambda: len(far.recv(1 << 22, socket.MSG_PEEK | socket.MSG_DONTWAIT)) if seen else -2
        )
        assert os.get_blocking(one.fileno()) is False
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await task
        assert os.get_blocking(one.fileno()) is True
        for sink, due, reader in zip(
            stopped.value.result.sinks, stopped.value.stranded_each, (far, away), strict=True
        ):
            got = b""
            while len(got) < sink.bytes:
                got += reader.recv(1 << 20)
            assert got + due == DATA[: len(got) + len(due)]
            assert len(got) + len(due) >= stopped.value.moved
        feeder.cancel()
        await asyncio.wait([feeder])
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
def test_no_byte_is_lost_wherever_it_is_cancelled(run):
    """What has left the source is with the sinks, due to them, or told: and the next goes on behind it."""

    async def main():
        (feeding, source), *sinks = pairs = streams(3)
        feeder = asyncio.create_task(send_all(feeding, DATA))
        has, taken, delay = [b"", b""], b"", 0.0
        while len(taken) < len(DATA):
            pumping = aio.pump(source, [near for near, _ in sinks], pipe_size=1 << 16)
            stopped = await cancelled(pumping, delay)
            delay = (delay + 0.0003) % 0.003
            if stopped is None:
                continue  # before its first step
            result, each, rest = stopped
            gone = len(taken) + result.bytes + len(rest)
            for number, (_, far) in enumerate(sinks):
                got = await read_exactly(far, result.sinks[number].bytes) + each[number]
                assert len(got) == result.bytes  # also of one that was ahead
                has[number] += got + rest
                assert len(has[number]) == gone
            taken = has[0]
        await feeder
        assert has == [DATA, DATA]
        close(pairs)

    with nothing_left():
        run(main())


async def cancelled(pumping, delay):
    """What was told when *pumping* was cancelled after *delay* seconds, or was over by then."""
    task = asyncio.create_task(pumping)
    await asyncio.sleep(delay)
    task.cancel()
    try:
        return await task, (b"", b""), b""
    except asyncio.CancelledError as stopped:
        if not hasattr(stopped, "result"):
            return None
        return stopped.result, stopped.stranded_each, stopped.stranded_bytes


async def read_exactly(sock, count):
    got = b""
    while len(got) < count:
        got += await asyncio.get_running_loop().sock_recv(sock, count - len(got))
    return got


def test_cancelling_waits_for_the_thread_that_moves_a_file(tmp_path):
    async def main():
        with open("/dev/zero", "rb", buffering=0) as zero, open(tmp_path / "b", "wb", buffering=0) as b:
            ((near, far),) = pairs = streams(1)
            collector = asyncio.create_task(read_all(far))
            task = asyncio.create_task(aio.pump(zero, [b, near], 1 << 40))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as stopped:
                await task
            size = os.fstat(b.fileno()).st_size
            assert stopped.value.result.sinks[0].bytes == size > 0
            near.close()
            assert len(await collector) == stopped.value.result.sinks[1].bytes
            assert os.fstat(b.fileno()).st_size == size  # nobody writes on
            close(pairs)

    with nothing_left():
        asyncio.run(main())


# -- refusals ---------------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused():
    async def main():
        ((near, _),) = pairs = streams(1)
        for wrong, options in [
            ("one sink", {"rate": 5}),
            ("on_slow must be", {"on_slow": "skip"}),
            ("do not go together", {"on_slow": "drop", "unit": 8, "strict": True}),
            ("linger", {"linger": -1, "on_slow": "drop"}),
        ]:
            with pytest.raises(ValueError, match=wrong):
                await aio.pump(b"x", [near], **options)
        for options in ({"unit": 8}, {"on_slow": "drop"}, {"linger": 1}, {"pipe_size": 4096}):
            with pytest.raises(ValueError, match="a list of sinks"):
                await aio.pump(b"x", near, **options)
        with pytest.raises(TypeError, match="is a descriptor"):
            await aio.pump(b"x", [bytearray(5)])
        with pytest.raises(TypeError, match="several sinks are a list"):
            await aio.pump(b"x", (near, near, near))
        with pytest.raises(ValueError, match="at least one sink"):
            await aio.pump(b"x", [])
        close(pairs)

    with nothing_left():
        asyncio.run(main())


@on_both_loops
def test_an_idle_fan_out_costs_no_processor_time(run):
    async def main():
        reader, writer = os.pipe()
        ((near, far),) = pairs = streams(1)
        task = asyncio.create_task(aio.pump(reader, [near]))
        await asyncio.sleep(0.1)
        before = time.process_time()
        await asyncio.sleep(1)
        assert time.process_time() - before < 0.1
        os.write(writer, b"late")
        os.close(writer)
        assert (await task).bytes == 4
        assert far.recv(10) == b"late"
        assert not fcntl.fcntl(reader, fcntl.F_GETFL) & os.O_NONBLOCK
        os.close(reader)
        close(pairs)

    with nothing_left():
        run(main())
