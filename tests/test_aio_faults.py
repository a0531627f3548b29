"""The faults of waiting and of pipes (FAULTS S3, S4, S10), on the pumps of event loops."""

import asyncio
import os
import socket
import subprocess
import sys
import time

import pytest
from counts import nothing_left
from ends import shrink
from loops import close, on_both_loops, stalled, streams
from needs import need

from zerosys import PumpTimeout, pipe_capacity, set_pipe_capacity
from zerosys.pumps import aio

DATA = bytes(range(251)) * 800


async def read_slowly(sock, piece=1000):
    loop, parts = asyncio.get_running_loop(), []
    while part := await loop.sock_recv(sock, piece):
        parts.append(part)
        await asyncio.sleep(0)
    return b"".join(parts)


# S3: a full or readerless pipe blocks for ever


@on_both_loops
@pytest.mark.parametrize("many", [False, True], ids=["one sink", "a list"])
def test_s3_a_pipe_that_nobody_reads_ends_by_the_deadline(run, many):
    async def main():
        reader, writer = os.pipe()
        ticks = asyncio.create_task(count_ticks())
        with pytest.raises(PumpTimeout) as late:
            await aio.pump(bytes(256 << 10), [writer] if many else writer, timeout=0.3)
        ticks.cancel()
        moved = late.value.result.sinks[0].bytes if many else late.value.moved
        assert moved == pipe_capacity(writer) == 65536
        assert late.value.side == (None if many else "sink")
        assert ticks_seen(ticks) > 5  # the loop went on
        os.close(reader)
        os.close(writer)

    with nothing_left():
        run(main())


async def count_ticks():
    task = asyncio.current_task()
    task.set_name("0")
    while True:
        await asyncio.sleep(0.01)
        task.set_name(str(int(task.get_name()) + 1))


def ticks_seen(task):
    return int(task.get_name())


@on_both_loops
@pytest.mark.parametrize("source_kind", ["file", "pipe"])
def test_s3_a_slow_reader_behind_a_4_kib_buffer_gets_every_byte_and_a_blocking_sink_stays_so(
    run, source_kind, tmp_path
):
    async def main():
        near, far = socket.socketpair()
        far.setblocking(False)
        shrink(near, far)
        (tmp_path / "data").write_bytes(DATA)
        if source_kind == "file":
            source = os.open(tmp_path / "data", os.O_RDONLY)
        else:
            source, writer = os.pipe()
            set_pipe_capacity(writer, 1 << 20)
            os.write(writer, DATA)
            os.close(writer)
        reader = asyncio.create_task(read_slowly(far))
        result = await aio.pump(source, near, timeout=60, strict=True)
        assert near.getblocking() and os.get_blocking(near.fileno())
        near.close()
        assert (await reader, result.moved) == (DATA, len(DATA))
        os.close(source)
        far.close()

    with nothing_left():
        run(main())


# S4: EAGAIN says nothing about which side


@on_both_loops
@pytest.mark.parametrize("most", [1, 32], ids=["short of pipes", "enough pipes"])
def test_s4_a_pipe_full_of_single_bytes_costs_nothing_while_the_sink_pauses(run, most):
    """A pipe of one page holds one piece: it is full at one byte, and the source has more all the while."""

    async def main():
        (feeding, source), (sink, far) = pairs = streams()
        full = fill(sink)
        pool = aio.PipePool(most=most, pipe_size=4096)
        for byte in DATA[:100]:
            feeding.send(bytes([byte]))
        task = asyncio.create_task(aio.pump(source, sink, pool=pool))
        await asyncio.sleep(0.1)
        before = time.process_time()
        await asyncio.sleep(1)
        assert time.process_time() - before < 0.1
        assert not task.done()
        feeding.close()
        got = await read_until(far, full + 100)
        assert got[full:] == DATA[:100]
        assert (await task).bytes == 100
        close(pairs)

    with nothing_left():
        run(main())


def fill(sock) -> int:
    sent = 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += sock.send(bytes(1000))
    return sent


async def read_until(sock, count):
    got = b""
    while len(got) < count:
        got += await asyncio.get_running_loop().sock_recv(sock, 1 << 16)
    return got


@on_both_loops
def test_s4_both_ways_of_a_relay_stuck_on_each_other_cost_nothing(run):
    async def main():
        (near, a), (b, far) = pairs = streams()
        # Neither side reads: what each sends fills the other's way to the brim.
        sends = [asyncio.create_task(stuff(one)) for one in (near, far)]
        task = asyncio.create_task(aio.relay(a, b))
        await stalled(task, lambda: sum(sent_by(one) for one in sends))
        before = time.process_time()
        await asyncio.sleep(1)
        assert time.process_time() - before < 0.1
        for one in sends:
            one.cancel()
        task.cancel()
        await asyncio.wait([*sends, task])
        close(pairs)

    with nothing_left():
        run(main())


async def stuff(sock):
    loop, task, sent = asyncio.get_running_loop(), asyncio.current_task(), 0
    task.set_name("0")
    while True:
        await loop.sock_sendall(sock, bytes(1000))
        sent += 1000
        task.set_name(str(sent))


def sent_by(task):
    return int(task.get_name()) if task.get_name().isdigit() else 0


# S10: pipe cannot be enlarged

POOR = """
import asyncio, os, socket
from zerosys import pipe_capacity, set_pipe_capacity
from zerosys.pumps import aio

async def main():
    pool = aio.PipePool(most=4, pipe_size=1 << 20)
    ends = []
    for _ in range(40):
        source, writer = socket.socketpair()
        sink, far = socket.socketpair()
        writer.sendall(bytes(1000)); writer.close()
        ends.append((source, sink, far))
    results = await asyncio.gather(*(aio.pump(source, sink, pool=pool) for source, sink, _ in ends))
    near, far = socket.socketpair()
    many = await aio.pump(b"to many", [near, near])
    fresh = os.pipe()
    print(sum(one.bytes for one in results), max(one.pipe_size for one in results), many.pipe_size,
          pipe_capacity(fresh[0]), many.sinks[1].bytes)

os.setuid(65534)
pipes = [os.pipe() for _ in range(400)]
smallest = min(set_pipe_capacity(writer, 1 << 20) for _, writer in pipes)
print(smallest)
asyncio.run(main())
"""


def test_s10_a_user_whose_pipe_budget_is_spent_still_pumps_and_is_told_the_size():
    need("root", None if os.geteuid() == 0 else "only root can become another user")
    with open("/proc/sys/fs/pipe-user-pages-soft") as limit:
        soft = int(limit.read()) * os.sysconf("SC_PAGESIZE")
    need("pipe budget", None if 0 < soft < 400 << 20 else f"fs.pipe-user-pages-soft allows {soft} bytes")
    child = subprocess.run([sys.executable, "-c", POOR], capture_output=True, text=True, timeout=60)
    assert child.stderr == ""
    smallest, carried, got, each, fresh, last = map(int, child.stdout.split())
    assert smallest < 1 << 20 and (carried, last) == (40_000, 7)
    assert got == each == fresh  # no more than any pipe gets now
