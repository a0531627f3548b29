"""Waits on a ring: other threads run, Ctrl-C ends them, event loops wait by a descriptor."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from counts import nothing_left

from zerosys import MessageRing, PeerDead, StreamRing

WAITS = {
    "reader": "ring.reader().read()",
    "writer": "w = ring.writer(); [w.write(bytes(1000)) for _ in range(100)]",
    "peek": "stream.reader().peek(100)",
    "claim": "w = stream.writer(); w.write(bytes(4096)); w.claim(1)",
}
SCRIPT = """
import signal, sys
from zerosys import MessageRing, StreamRing
signal.signal(signal.SIGINT, signal.default_int_handler)
ring, stream = MessageRing.create(4096), StreamRing.create(4096, "u1")
print("ready", flush=True)
try:
    {wait}
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait_within_a_second(wait):
    script = SCRIPT.format(wait=WAITS[wait])
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "KeyboardInterrupt\n"
        assert time.monotonic() - begun < 1
        assert child.wait(10) == 0


def test_a_handler_that_returns_does_not_end_a_wait():
    runs = []
    before = signal.signal(signal.SIGALRM, lambda *_: runs.append(1))
    try:
        with MessageRing.create(4096) as ring, ring.reader() as r:
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
            with pytest.raises(TimeoutError):
                r.read(timeout=0.2)
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert len(runs) > 3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("spin", [0, None, 0.01])
def test_a_thread_that_waits_lets_the_other_write(spin):
    with MessageRing.create(4096) as ring, ring.writer(spin=spin) as w, ring.reader(spin=spin) as r:
        got = []
        thread = threading.Thread(target=lambda: got.extend(r))
        thread.start()
        for i in range(3000):
            w.write(b"%d" % i * 10, timeout=20)
        w.close()
        thread.join(20)
        assert got == [b"%d" % i * 10 for i in range(3000)]


def test_an_end_is_not_for_two_threads_at_once():
    with MessageRing.create(4096) as ring, ring.writer() as w, ring.reader() as r:
        thread = threading.Thread(target=r.read)
        thread.start()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                r.try_read()
            except ValueError as refused:
                assert "this messagereader is in the middle of another call" in str(refused)
                break
        else:
            pytest.fail("no refusal")
        with pytest.raises(ValueError, match="another call"):
            r.close()
        w.write(b"x")
        thread.join(10)


def test_a_sleeping_reader_wakes_only_for_what_it_waits_for():
    with StreamRing.create("64KiB", "u1") as ring, ring.writer() as w, ring.reader(spin=0) as r:
        done = threading.Event()
        thread = threading.Thread(target=lambda: (r.peek(1000, timeout=20).release(), done.set()))
        thread.start()
        for _ in range(999):
            w.write(b"x")
        assert not done.wait(0.05)
        w.write(b"x")
        assert done.wait(1)
        thread.join()


# -- descriptors -------------------------------------------------------------------------------


def readable(reader, timeout):
    return bool(select.select([reader], [], [], timeout)[0])


def test_the_descriptor_is_readable_while_something_waits():
    with MessageRing.create(4096) as ring, ring.writer() as w, ring.reader() as r:
        assert not readable(r, 0.05)
        for turn in range(20):
            w.write(b"a")
            w.write(b"b")
            assert readable(r, 2), turn
            assert r.read() == b"a" and readable(r, 2)
            assert r.read() == b"b" and r.try_read() is None
            assert not readable(r, 0.01)
        w.close()
        assert readable(r, 2) and not r.try_peek()


def test_a_blocking_read_beside_the_descriptor_keeps_both_right():
    with MessageRing.create(4096) as ring, ring.writer() as w, ring.reader(spin=0) as r:
        r.fileno()
        for turn in range(20):
            timer = threading.Timer(0.005, w.write, [b"x"])
            timer.start()
            assert r.read(timeout=5) == b"x", turn
            timer.join()
            assert r.try_read() is None
            w.write(b"y")
            begun = time.monotonic()
            assert readable(r, 2) and time.monotonic() - begun < 0.09  # woken, not found by a slice's end
            assert r.read() == b"y"


def test_blocks_come_in_an_event_loop():
    async def consume(reader):
        return np.concatenate([np.asarray(block).copy() async for block in reader])

    async def produce(writer):
        for start in range(0, 5000, 50):
            while writer.try_write(np.arange(start, start + 50, dtype="i4")) is None:
                await asyncio.sleep(0)
            if start % 500 == 0:
                await asyncio.sleep(0.005)
        writer.close()

    async def both(ring):
        with ring.writer() as w, ring.reader() as r:
            got, _ = await asyncio.gather(consume(r), produce(w))
            return got

    with nothing_left(), StreamRing.create(4096, "i4") as ring:
        assert (asyncio.run(both(ring)) == np.arange(5000)).all()


def test_messages_come_in_an_event_loop_until_the_writer_dies():
    with MessageRing.create(4096) as ring, ring.reader() as r:
        child = os.fork()
        if not child:
            w = ring.writer()
            w.write_many([b"1", b"2"])
            os._exit(0)

        async def consume():
            got.extend([message async for message in r])

        got = []
        os.waitpid(child, 0)
        with pytest.raises(PeerDead):
            asyncio.run(asyncio.wait_for(consume(), 5))


def test_a_cancelled_wait_leaves_the_loop_clean():
    async def give_up(reader):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.__anext__(), 0.05)

    with nothing_left(), MessageRing.create(4096) as ring, ring.writer() as w, ring.reader() as r:
        asyncio.run(give_up(r))
        w.write(b"still works")
        assert r.read() == b"still works"
