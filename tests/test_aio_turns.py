"""What could leave a pump on an event loop waiting for ever: each thing that it relies on fails once."""

import asyncio
import gc
import os
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import uvloop
from counts import nothing_left
from loops import close, on_both_loops, read_all, send_all, streams

from zerosys import PumpError
from zerosys.pumps import aio

DATA = bytes(range(251)) * 4_000
WAIT = 20  # s, after which what should have ended hangs


def within(task):
    return asyncio.wait_for(task, WAIT)


class Wrong(Exception):
    """What a user's own code raises."""


def raises(result):
    raise Wrong


@on_both_loops
@pytest.mark.parametrize("how", ["pump", "fan out", "relay", "file"])
def test_an_exception_of_a_progress_function_ends_the_pump_and_is_told(run, how, tmp_path):
    (tmp_path / "in").write_bytes(DATA)

    async def main():
        (a, b), (c, d) = lines = streams()
        file = open(tmp_path / "in", "rb")
        sending = asyncio.create_task(trickle(a))
        reading = asyncio.create_task(read_all(d))
        pumping = {
            "pump": lambda: aio.pump(b, c, progress=raises),
            "fan out": lambda: aio.pump(b, [c], progress=raises),
            "relay": lambda: aio.relay(b, c, progress=raises),
            "file": lambda: aio.pump(file, c, rate=len(DATA), progress=raises),
        }[how]()
        with pytest.raises(Wrong) as stopped:
            await within(pumping)
        assert stopped.value.moved
        await ended(sending, reading)
        file.close()
        close(lines)

    run(main())


async def ended(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def trickle(sock):
    while True:
        await asyncio.get_running_loop().sock_sendall(sock, b"drop")
        await asyncio.sleep(0.02)


@on_both_loops
@pytest.mark.parametrize("many", [False, True])
def test_an_executor_that_takes_no_work_is_an_error(run, many, tmp_path):
    (tmp_path / "in").write_bytes(DATA)
    executor = ThreadPoolExecutor(1)
    executor.shutdown()

    async def main():
        with open(tmp_path / "in", "rb") as src, open(tmp_path / "out", "wb") as dst:
            with pytest.raises(RuntimeError, match="shutdown") as stopped:
                await within(aio.pump(src, [dst] if many else dst, executor=executor))
        assert stopped.value.moved == 0

    with nothing_left():
        run(main())


@on_both_loops
@pytest.mark.parametrize("many", [False, True])
def test_an_executor_that_drops_its_work_is_an_error_and_no_cancelled_task(run, many, tmp_path):
    (tmp_path / "in").write_bytes(DATA)
    busy = threading.Event()

    async def main():
        executor = ThreadPoolExecutor(1)
        executor.submit(busy.wait, WAIT)
        with open(tmp_path / "in", "rb") as src, open(tmp_path / "out", "wb") as dst:
            pumping = asyncio.create_task(aio.pump(src, [dst] if many else dst, executor=executor))
            await asyncio.sleep(0.1)
            executor.shutdown(wait=False, cancel_futures=True)
            with pytest.raises(RuntimeError, match="executor") as stopped:
                await within(asyncio.shield(pumping))
        assert stopped.value.moved == 0 and not pumping.cancelled()
        busy.set()
        executor.shutdown()

    run(main())


@contextmanager
def no_descriptor_left():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, hard))
    try:
        try:
            while True:
                fillers.append(os.dup(fillers[0]))
        except OSError:
            yield
    finally:
        for filler in fillers:
            os.close(filler)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@on_both_loops
def test_an_end_is_passed_on_where_no_descriptor_is_left(run):
    async def main():
        (a, b), (c, d) = lines = streams()
        relaying = asyncio.create_task(aio.relay(b, c))
        loop = asyncio.get_running_loop()
        for out, back in ((a, d), (d, a)):
            await loop.sock_sendall(out, b"x")
            assert await loop.sock_recv(back, 1) == b"x"
        with no_descriptor_left():
            for out, back in ((a, d), (d, a)):
                out.shutdown(socket.SHUT_WR)
                assert await within(loop.sock_recv(back, 1)) == b""
            assert (await within(relaying)).bytes == 2
        close(lines)

    with nothing_left():
        run(main())


@on_both_loops
def test_who_waits_for_a_pipe_gets_the_one_that_stalls_next(run, tmp_path):
    """While a thread fills a pipe it can be taken from nobody; but as soon as its sink blocks."""
    (tmp_path / "in").write_bytes(DATA * 10)
    held, entered = threading.Event(), threading.Event()

    class Slow(ThreadPoolExecutor):
        """Does its work when it may, so that the pipe is asked for meanwhile."""

        def submit(self, call, *arguments):
            def later():
                if arguments or pool.pipes:
                    entered.set()
                    held.wait(WAIT)
                return call(*arguments)

            return super().submit(later)

    pool = aio.PipePool(1)

    async def main():
        (a, b), (c, d), (e, f) = lines = streams(3)
        with open(tmp_path / "in", "rb") as src, Slow(1) as executor:
            stuck = asyncio.create_task(aio.pump(src, b, pool=pool, executor=executor))
            while not entered.is_set():
                await asyncio.sleep(0.01)
            assert pool.pipes == 1
            other = asyncio.create_task(aio.pump(d, e, pool=pool))
            await send_all(c, b"urgent")
            await asyncio.sleep(0.1)
            assert pool.short
            held.set()
            assert (await within(other)).bytes == len(b"urgent")
            assert await within(asyncio.get_running_loop().sock_recv(f, 100)) == b"urgent"
            reading = asyncio.create_task(read_all(a))
            result = await within(stuck)
            b.close()
            assert await within(reading) == DATA * 10
            assert result.copied + result.moved == len(DATA) * 10 and result.copied
        close(lines)

    run(main())


@on_both_loops
def test_a_direction_that_has_failed_keeps_no_pipe_from_others(run):
    pool = aio.PipePool(1)

    async def main():
        (a, b), (c, d), (e, f), (g, h) = lines = streams(4)
        loop = asyncio.get_running_loop()
        d.shutdown(socket.SHUT_RD)  # what it sends may still be wanted
        half = asyncio.create_task(aio.relay(b, c, pool=pool))
        await loop.sock_sendall(a, b"never to arrive")
        while not pool.pipes:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert not half.done()
        other = asyncio.create_task(aio.pump(f, g, pool=pool))
        await send_all(e, b"urgent")
        assert (await within(other)).bytes == len(b"urgent")
        assert await within(loop.sock_recv(h, 100)) == b"urgent"
        d.shutdown(socket.SHUT_WR)
        with pytest.raises(PumpError, match="Broken pipe") as stopped:
            await within(half)
        assert stopped.value.stranded_each == (b"never to arrive", b"")
        assert (stopped.value.result.forth.bytes, stopped.value.result.back.bytes) == (0, 0)
        close(lines)

    with nothing_left():
        run(main())


@on_both_loops
@pytest.mark.parametrize("count", [0, 3, 10])
def test_a_count_of_what_a_stream_has_to_its_end_leaves_the_rest_in_it(run, count):
    async def main():
        (a, b), (c, d) = lines = streams()
        reader, writer = await asyncio.open_connection(sock=b)
        await send_all(a, b"0123456789")
        while len(reader._buffer) < 10 or not reader._eof:
            await asyncio.sleep(0.01)
        assert (await within(aio.pump((reader, writer), c, count))).bytes == count
        assert await within(reader.read()) == b"0123456789"[count:]
        if count:
            assert await asyncio.get_running_loop().sock_recv(d, 100) == b"0123456789"[:count]
        writer.close()
        close(lines)

    run(main())


@on_both_loops
def test_an_argument_that_is_refused_costs_a_stream_nothing(run):
    async def main():
        (a, b), (c, _) = lines = streams()
        reader, writer = await asyncio.open_connection(sock=b)
        await asyncio.get_running_loop().sock_sendall(a, b"read ahead")
        while len(reader._buffer) < 10:
            await asyncio.sleep(0.01)
        for wrong in (
            {"rate": -1},
            {"rate": "fast"},
            {"timeout": "soon"},
            {"stall_timeout": -1},
            {"offset_dst": -1},
        ):
            with pytest.raises((ValueError, TypeError)):
                await within(aio.pump((reader, writer), c, **wrong))
        a.close()
        assert await within(reader.read()) == b"read ahead"
        writer.close()
        close(lines)

    run(main())


@on_both_loops
def test_streams_that_are_closed_are_refused_and_no_stranger_gets_their_bytes(run):
    async def main():
        ((_, b),) = lines = streams(1)
        reader, writer = await asyncio.open_connection(sock=b)
        number = b.fileno()
        writer.close()
        await writer.wait_closed()
        strangers = streams(4)  # one has that number now
        for end in ((reader, writer),):
            with pytest.raises(ValueError, match="closed"):
                await within(aio.pump(b"for nobody else", end))
            with pytest.raises(ValueError, match="closed"):
                await within(aio.pump(end, b"", 1))
            with pytest.raises(ValueError, match="closed"):
                await within(aio.relay(end, strangers[0][0]))
        assert number >= 0
        close(lines + strangers)

    run(main())


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("how", ["socket", "fan out", "file"])
def test_a_loop_that_is_closed_in_the_middle_leaves_nothing(make, how, tmp_path):
    (tmp_path / "in").write_bytes(DATA * 100)
    near, far = socket.socketpair()
    other, end = socket.socketpair()
    with nothing_left(), open(tmp_path / "in", "rb") as file, open(os.devnull, "wb") as null:
        loop = make()
        pumping = {
            "socket": lambda: aio.pump(other, near),
            "fan out": lambda: aio.pump(other, [near]),
            "file": lambda: aio.pump(file, near),
        }[how]
        task = loop.create_task(pumping())
        end.send(b"x")
        loop.run_until_complete(asyncio.sleep(0.3))
        assert not task.done()
        loop.close()
        task._log_destroy_pending = False
        del task, loop
        assert asyncio.run(aio.pump(b"the next loop", null)).bytes == 13
        gc.collect()
        while any(thread.name.startswith("zerosys-aio") for thread in threading.enumerate()):
            time.sleep(0.01)  # they end when they see that nobody can give them work any more
    assert near.getblocking() and os.get_blocking(near.fileno()) and os.get_blocking(other.fileno())
    for sock in (near, far, other, end):
        sock.close()
