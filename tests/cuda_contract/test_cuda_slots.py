"""Slots: acquired anywhere, passed on by pickle, back when released, or left by the dead."""

import gc
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from counts import nothing_left
from memory import PAGE

from zerosys import SharedRegion, cuda
from zerosys._slots import format_table, table_bytes

SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")


class Event:
    """As torch's: asked by query()."""

    happened = False

    def query(self):
        return self.happened


@pytest.fixture
def shared():
    """A pool for tests that start processes, for which multiprocessing keeps things of its own."""
    with cuda.SlotPool.create(3, 5000) as made:
        yield made
        gc.collect()
    assert made.closed


@pytest.fixture
def pool():
    with nothing_left():
        with cuda.SlotPool.create(3, 5000) as made:
            yield made
            gc.collect()
        assert made.closed
        del made


def test_a_slot_is_acquired_and_given_back(pool):
    slot = pool.acquire()
    assert (len(slot), slot.nbytes, slot.pool, pool.count, pool.free) == (5000, 5000, pool, 3, 2)
    assert slot.address % PAGE == 0 and slot.address >= pool.region.address + table_bytes(3)
    array = slot.array("f4", (10, -1))
    assert array.shape == (10, 125)
    array[:] = 3
    with pytest.raises(BufferError, match="1 live view"):
        slot.release()
    del array
    slot.release()
    slot.release()
    assert slot.released and pool.free == 3 and pool.held == 0
    with pytest.raises(ValueError, match="given back"):
        slot.array()


def test_each_slot_is_its_own(pool):
    slots = [pool.acquire() for _ in range(3)]
    for slot in slots:
        slot.array()[:] = slot.index + 1
    assert sorted(slot.index for slot in slots) == [0, 1, 2]
    for slot in slots:
        assert (slot.array() == slot.index + 1).all()
    assert pool.try_acquire() is None
    with pytest.raises(TimeoutError, match=r"none of 3 slots was given back within 0.05 s"):
        pool.acquire(timeout=0.05)
    with slots[0]:
        pass
    assert pool.acquire(timeout=0).index == slots[0].index


def test_a_dropped_slot_comes_back_but_not_under_an_array(pool):
    array = pool.acquire().array()
    assert pool.free == 2
    array[:] = 1
    del array
    assert pool.free == 3


def test_a_pool_is_not_closed_under_slots(pool):
    with pool.acquire(), pytest.raises(BufferError, match=r"1 slot\(s\)"):
        pool.close()
    assert not pool.closed


def test_a_waiter_is_woken(pool):
    slots = [pool.acquire() for _ in range(3)]
    threading.Timer(0.1, slots[1].release).start()
    assert pool.acquire(timeout=20).index == slots[1].index


def test_a_slot_waits_for_its_event(pool):
    event = Event()
    slot = pool.acquire()
    slot.release(after=event)
    assert slot.released and pool.free == 2
    time.sleep(0.05)
    assert pool.free == 2
    event.happened = True
    others = [pool.acquire(timeout=20) for _ in range(3)]
    assert slot.index in [other.index for other in others]


def test_closing_waits_for_devices():
    with nothing_left():
        pool, event = cuda.SlotPool.create(1, 1), Event()
        pool.acquire().release(after=event)
        threading.Timer(0.1, setattr, (event, "happened", True)).start()
        pool.close()
        assert event.happened
        del pool


def test_a_slot_waits_for_a_stream_and_is_overwritten_without(gpu):
    """torch and CuPy record nothing for memory that they did not allocate: only after= keeps a slot."""
    stream = gpu.stream()
    with cuda.SlotPool.create(1, 4096, device=0) as pool, gpu.memory(4096) as there:
        slot = pool.acquire()
        slot.array()[:] = 7
        assert slot.pointer == gpu.watched.inner.device_pointer(slot.address)
        gpu.watched.inner.copy(there, slot.pointer, 4096, stream)
        slot.release(after=stream)
        if gpu.kind == "double":
            assert pool.try_acquire() is None  # nobody has asked its stream to go on
        gpu.finish(stream)
        again = pool.acquire(timeout=20)
        back = numpy.zeros(4096, "u1")
        cuda.copy(back, Device(there, 4096))
        assert (back == 7).all()
        if gpu.kind == "double":  # whose stream stands still meanwhile: a real one may be faster
            gpu.watched.inner.copy(there, again.pointer, 4096, stream)
            again.release()
            pool.acquire().array()[:] = 9
            gpu.finish(stream)
            cuda.copy(back, Device(there, 4096))
            assert (back == 9).all()
        del again


class Device:
    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (pointer, False), "strides": None, "version": 3,
        }  # fmt: skip


# -- pickled -----------------------------------------------------------------------------------


def test_a_pickled_slot_is_the_receivers(pool):
    sent = pool.acquire()
    sent.array()[:] = 5
    text = pickle.dumps(sent)
    assert len(text) < 300
    got = pickle.loads(text)
    assert (got.index, got.generation) == (sent.index, sent.generation + 1)
    assert (got.array() == 5).all()
    with pytest.raises(cuda.StaleSlot, match="went to another process"):
        sent.release()
    with pytest.raises(cuda.StaleSlot):
        sent.array()
    with pytest.raises(cuda.StaleSlot, match="stale"):
        pickle.loads(text)
    del sent
    assert pool.free == 2
    got.release()


def test_a_slot_that_nobody_received_can_be_given_back_by_its_sender(pool):
    slot = pool.acquire()
    text = pickle.dumps(slot)
    slot.release()
    assert pool.free == 3
    with pytest.raises(cuda.StaleSlot):
        pickle.loads(text)


def _fill(pool, queue, over, rounds):
    for n in range(rounds):
        slot = pool.acquire(timeout=60)
        slot.array("u4")[:] = n
        queue.put(slot)
    over.wait(60)  # what is on its way stays this process's until it has arrived


@pytest.mark.parametrize("context", [SPAWN, FORK], ids=["spawn", "fork"])
def test_workers_fill_and_the_parent_empties(shared, context):
    queue, over = context.Queue(), context.Event()
    workers = [context.Process(target=_fill, args=(shared, queue, over, 10)) for _ in range(2)]
    for worker in workers:
        worker.start()
    seen = []
    for _ in range(20):
        slot = queue.get(timeout=60)
        words = slot.array("u4")
        assert (words == words[0]).all()
        seen.append(int(words[0]))
        del words
        slot.release()
    over.set()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(seen) == sorted([*range(10)] * 2)
    queue.close()
    queue.join_thread()
    assert shared.free == 3


CHILD = """
import os, pickle, sys
sys.stdout.buffer.write(pickle.loads(sys.stdin.buffer.read()).array().tobytes())
"""


def test_a_slot_arrives_where_the_pool_is_not_known(shared):
    with shared.acquire() as slot:
        slot.array()[:] = 8
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", CHILD], input=pickle.dumps(slot), capture_output=True
        )
    assert (done.stdout, done.stderr) == (bytes([8]) * 5000, b"")


# -- the dead ------------------------------------------------------------------------------------


def _hold(pool, pipe, send):
    slots = [pool.acquire() for _ in range(3)]
    pipe.send([pickle.dumps(slot) for slot in slots] if send else None)
    pipe.recv()


@pytest.mark.parametrize("send", [False, True], ids=["held", "sent"])
@pytest.mark.parametrize("context", [SPAWN, FORK], ids=["spawn", "fork"])
def test_what_a_killed_process_held_comes_back(shared, context, send):
    here, there = context.Pipe()
    worker = context.Process(target=_hold, args=(shared, there, send))
    worker.start()
    texts = here.recv()
    assert shared.free == 0 and shared.try_acquire() is None  # it lives
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    slots = [shared.acquire(timeout=20) for _ in range(3)]
    for text in texts or ():
        with pytest.raises(cuda.StaleSlot, match="its sender ended"):
            pickle.loads(text)
    del slots
    here.close()
    there.close()


def test_a_stopped_process_is_not_dead(shared):
    here, there = SPAWN.Pipe()
    worker = SPAWN.Process(target=_hold, args=(shared, there, False))
    worker.start()
    here.recv()
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            shared.acquire(timeout=0.2)
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    assert shared.reclaim() == 3
    here.close()
    there.close()


def test_a_forked_childs_parent_keeps_its_slots(shared):
    slot = shared.acquire()
    slot.array()[:] = 1
    pid = os.fork()
    if not pid:
        code = 1
        try:
            with pytest.raises(cuda.StaleSlot, match="the parent's"):
                slot.release()
            mine = shared.acquire()
            code = 0 if mine.index != slot.index and shared.held == 1 else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert shared.reclaim() == 1  # the child's
    assert (slot.array() == 1).all()


def test_a_child_that_outlives_its_parent_does_not_keep_its_slots(shared):
    """A fork inherits the description with the parent's lock: it has to be let go there."""
    here, there = SPAWN.Pipe()
    worker = SPAWN.Process(target=_hold_and_fork, args=(shared, there))
    worker.start()
    child = here.recv()
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    try:
        assert shared.acquire(timeout=20)
    finally:
        os.kill(child, signal.SIGKILL)
    here.close()
    there.close()


def _hold_and_fork(pool, pipe):
    slots = [pool.acquire() for _ in range(3)]
    child = os.fork()
    if not child:
        time.sleep(600)
    pipe.send(child)
    pipe.recv()
    del slots


# -- names and strangers ---------------------------------------------------------------------------


def test_a_pool_has_a_name():
    name = f"zerosys-slots-{os.getpid()}"
    with nothing_left():
        with cuda.SlotPool.create(2, "8KiB", name=name) as pool:
            assert pool.name == name
            with cuda.SlotPool.attach(name) as other:
                with other.acquire() as slot:
                    slot.array()[:] = 4
                    assert pool.free == other.free == 1
                assert pool.free == 2
            pool.unlink()
            with pytest.raises(FileNotFoundError):
                cuda.SlotPool.attach(name)
        del pool, other, slot


def test_a_pool_is_attached_by_its_handle(pool):
    with pool.handle() as handle, cuda.SlotPool.attach(handle) as other:
        assert (other.count, other.nbytes, other.free) == (3, 5000, 3)


@pytest.mark.parametrize("at", [0, 8, 12, 16, 24, 32])
def test_every_number_of_the_table_is_checked(at):
    size = table_bytes(2) + 2 * PAGE
    with nothing_left(), SharedRegion.create(size) as region:
        format_table(region, 2, 5, PAGE)
        with region.handle() as handle:
            cuda.SlotPool.attach(handle).close()
            region.array("u8", 1, at // 8 * 8)[0] = 0xFFFF_FFFF_FFFF_FFF0
            with pytest.raises(ValueError, match=r"slot pool"):
                cuda.SlotPool.attach(handle)


def test_a_product_of_the_tables_numbers_that_wraps_is_seen():
    """65536 slots that lie 2**48 bytes apart end, modulo 2**64, where they begin."""
    count = 1 << 16
    with nothing_left(), SharedRegion.create(table_bytes(count) + PAGE) as region:
        format_table(region, 1, 5, PAGE)
        region.array("u4", 1, 12)[0] = count
        region.array("u8", 3, 16)[:] = 1 << 48, 1 << 48, table_bytes(count)
        with region.handle() as handle, pytest.raises(ValueError, match="slot pool that says 65536 slots"):
            cuda.SlotPool.attach(handle)


@pytest.mark.parametrize(("timeout", "error"), [(-1, ValueError), (math.nan, ValueError), ("1", TypeError)])
def test_a_time_that_is_none_is_refused(pool, timeout, error):
    slots = [pool.acquire() for _ in range(3)]
    with pytest.raises(error):
        pool.acquire(timeout=timeout)
    for slot in slots:
        slot.release()


@pytest.mark.parametrize("count, nbytes", [(0, 1), (1, 0), (1 << 25, 1)])
def test_impossible_pools_are_refused(count, nbytes):
    with nothing_left(), pytest.raises(ValueError, match="must be"):
        cuda.SlotPool.create(count, nbytes)


def test_a_thousand_rounds_leave_nothing(pool):
    with nothing_left():
        for _ in range(1000):
            slot = pool.acquire(timeout=0)
            slot.array()
            slot.release()
        del slot
    assert pool.free == 3
