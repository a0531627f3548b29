"""Rings in other processes: as arguments, over Unix sockets, by name; and what a fork may not go on with."""

import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from counts import nothing_left

from zerosys import (
    MessageRing,
    NotReady,
    PeerDead,
    RingCorrupt,
    SharedRegion,
    StreamRing,
    handle,
)  # fmt: skip
from zerosys.ring.base import Ring

NAME = f"ring-test-{os.getpid()}"


def produce(ring, count):
    with ring.writer() as w:
        for start in range(0, count, 100):
            w.write(np.arange(start, start + 100, dtype="i8"), timeout=30)


def consume(ring, results):
    with ring.reader() as r:
        results.put(sum(int(block.array.sum()) for block in r))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_ring_is_an_argument_of_processes(method):
    context = multiprocessing.get_context(method)
    with StreamRing.create("64KiB", "i8", readers=2) as ring:
        results = context.Queue()
        reader = ring.reader()  # here, before anything is written
        processes = [context.Process(target=consume, args=(ring, results))]
        processes.append(context.Process(target=produce, args=(ring, 50_000)))
        for process in processes:
            process.start()
            while process is processes[0] and len(ring.stat()["readers"]) < 2:
                time.sleep(0.01)
        here = sum(int(block.array.sum()) for block in reader)
        assert here == results.get(timeout=30) == sum(range(50_000))
        for process in processes:
            process.join(30)
            assert process.exitcode == 0
        reader.close()


def test_plain_pickle_says_how_rings_travel():
    with StreamRing.create(4096, "i4") as ring:
        with pytest.raises(TypeError, match="plain pickle"):
            pickle.dumps(ring)
        with ring.writer() as w, pytest.raises(TypeError, match="pass the ring"):
            pickle.dumps(w)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_a_ring_goes_over_a_unix_socket(kind):
    with nothing_left():
        ours, theirs = socket.socketpair(type=kind)
        with ours, theirs, MessageRing.create(4096) as ring, ring.handle() as sent:
            handle.send(ours, sent)
            with handle.recv(theirs) as got, MessageRing.attach(got) as there:
                with ring.writer() as w, there.reader() as r:
                    w.write(b"over there")
                    assert r.read(timeout=1) == b"over there"


def test_what_arrives_is_checked_and_closed():
    ours, theirs = socket.socketpair()
    with ours, theirs, MessageRing.create(4096) as ring, SharedRegion.create(4096) as region:
        with ring.handle() as made, region.handle() as other, nothing_left():
            wrong = handle.RingHandle(os.dup(made.filenos()[0]), os.dup(other.fileno()), made.particulars)
            with wrong, pytest.raises(RingCorrupt, match="another file"):
                MessageRing.attach(wrong)
            with pytest.raises(RingCorrupt, match="ring of messages"):
                StreamRing.attach(made)
            with pytest.raises(TypeError, match=r"a name or what ring\.handle"):
                MessageRing.attach(other)
            swapped = handle.RingHandle(*(os.dup(fd) for fd in reversed(made.filenos())), made.particulars)
            with swapped, pytest.raises((RingCorrupt, NotReady)):
                MessageRing.attach(swapped)


@pytest.mark.parametrize(
    ("element", "size", "why"),
    [
        ("O", 8, "pointers"),
        ("T{i:a:O:b:}", 12, "pointers"),
        ("d", 1, "does not have 1 bytes"),
        ("", 4, "do not fit"),
        ("i\0", 4, "do not fit"),
    ],
)
def test_a_format_that_would_be_followed_out_of_the_ring_is_refused(element, size, why):
    with StreamRing.create(4096, f"V{size}") as ring, ring.handle() as handle:
        with mmap.mmap(handle.fileno(), 0) as control:
            control[96:104] = struct.pack("II", len(element), 0)
            control[160 : 160 + len(element)] = element.encode()
        with nothing_left(), pytest.raises(RingCorrupt, match=why):
            StreamRing.attach(handle)


def test_a_field_may_be_called_as_a_pointer_is():
    dtype = np.dtype([("O", "i4"), ("P", "f4")])
    with StreamRing.create(4096, dtype) as ring, ring.handle() as handle, StreamRing.attach(handle) as there:
        assert there.dtype == dtype


# -- names -------------------------------------------------------------------------------------


def test_a_name_is_attached_to_and_removed():
    with nothing_left(), StreamRing.create("64KiB", "c8", name=NAME) as ring:
        assert ring.name == NAME and os.path.exists(f"/dev/shm/{NAME}.data")
        with StreamRing.attach(NAME) as there, ring.writer() as w, there.reader() as r:
            w.write(np.ones(10, "c8"))
            assert np.asarray(r.peek(10)).sum() == 10 and there.dtype == "c8"
        with pytest.raises(FileExistsError, match="taken"):
            StreamRing.create(4096, "u1", name=NAME)
        ring.unlink()
        ring.unlink()
        assert not [name for name in os.listdir("/dev/shm") if name.startswith(NAME)]
        with pytest.raises(FileNotFoundError):
            StreamRing.attach(NAME)


def test_attaching_waits_for_a_name():
    def later():
        time.sleep(0.1)
        made.append(MessageRing.create(4096, name=NAME))

    made = []
    thread = threading.Thread(target=later)
    thread.start()
    with MessageRing.attach(NAME, timeout=10) as there:
        assert there.capacity == 4096
    thread.join()
    made[0].unlink()
    made[0].close()


def test_a_ring_that_is_not_finished_is_not_ready_and_stays():
    path = f"/dev/shm/{NAME}"
    try:
        for size, wrong in ((0, NotReady), (8192, NotReady)):
            for each in (path, f"{path}.data"):
                with open(each, "wb") as file:
                    file.truncate(size)
            with nothing_left(), pytest.raises(wrong):
                StreamRing.attach(NAME)
            assert os.stat(path).st_size == size
        with open(path, "wb") as file:
            file.write(b"something else" * 1000)
        with nothing_left(), pytest.raises(RingCorrupt, match="magic"):
            StreamRing.attach(NAME)
    finally:
        for each in (path, f"{path}.data"):
            os.unlink(each)


def test_data_without_its_ring_is_cleared_away():
    SharedRegion.create(4096, name=f"{NAME}.data").close()
    with MessageRing.create(4096, name=NAME) as ring:
        ring.unlink()


def test_a_stranger_process_attaches_by_name():
    code = (
        "import sys, zerosys\n"
        f"with zerosys.MessageRing.attach({NAME!r}) as ring, ring.reader() as r:\n"
        "    print('here', flush=True)\n"
        "    print(sum(len(m) for m in r))\n"
    )
    with MessageRing.create("64KiB", name=NAME) as ring:
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "here\n"
            with ring.writer() as w:
                for length in range(1000):
                    w.write(bytes(length), timeout=20)
            assert int(child.stdout.readline()) == sum(range(1000))
        ring.unlink()


# -- forks and deaths --------------------------------------------------------------------------


def in_child(work):
    """What *work* answered in a forked child, as text."""
    r, w = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(w, str(work()).encode())
        finally:
            os._exit(0)
    os.close(w)
    with open(r) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


def refusal(call):
    try:
        return call()
    except Exception as refused:
        return f"{type(refused).__name__}: {refused}"


def test_a_forked_child_has_the_ring_but_not_its_parents_ends():
    with MessageRing.create(4096, readers=2) as ring, ring.writer() as w, ring.reader() as r:
        r.fileno()
        assert "belongs to the process that was forked" in in_child(lambda: refusal(lambda: w.write(b"x")))
        assert "belongs to the process that was forked" in in_child(lambda: refusal(lambda: r.try_read()))
        assert in_child(lambda: (w.closed, r.closed, w.close(), r.close())) == "(True, True, None, None)"
        w.write(b"parent's")
        assert in_child(lambda: ring.reader().read()) == 'b"parent\'s"'
        assert r.read() == b"parent's"


def test_a_child_that_inherited_does_not_keep_a_dead_parent_alive():
    """The lock of an end is the process's own: the child that it forked lives on, and holds nothing."""
    with MessageRing.create(4096) as ring:
        ready, go = os.pipe()
        parent = os.fork()
        if not parent:
            writer = ring.writer()
            writer.write(b"last")
            grandchild = os.fork()
            if grandchild:
                os.write(go, str(grandchild).encode().ljust(20))
            time.sleep(60)
            os._exit(0)
        grandchild = int(os.read(ready, 20))
        try:
            with ring.reader() as r:
                assert r.read(timeout=5) == b"last"
                os.kill(parent, signal.SIGSTOP)
                with pytest.raises(TimeoutError):
                    r.read(timeout=0.3)  # a stopped writer is not dead
                os.kill(parent, signal.SIGKILL)
                os.waitpid(parent, 0)
                begun = time.monotonic()
                with pytest.raises(PeerDead, match="died without ending the stream") as dead:
                    r.read(timeout=10)
                assert time.monotonic() - begun < 2 and dead.value.pid == parent
                with ring.writer() as w:
                    w.write(b"another goes on")
                    assert r.read(timeout=1) == b"another goes on"
        finally:
            os.kill(grandchild, signal.SIGKILL)
            os.close(ready)
            os.close(go)


@pytest.mark.parametrize("on_dead", ["raise", "evict"])
def test_a_dead_reader_does_not_block_the_writer(on_dead):
    with MessageRing.create(4096, on_dead=on_dead, readers=2) as ring, ring.writer() as w:
        ready, told = os.pipe()
        child = os.fork()
        if not child:
            reader = ring.reader()
            os.write(told, b"x")
            reader.read()
            time.sleep(60)
        os.read(ready, 1)
        os.close(ready)
        os.close(told)
        w.write(b"released")
        while ring.stat()["readers"][0]["items"] < 1:
            time.sleep(0.001)
        w.write_many([b"%d" % i for i in range(100)], timeout=5)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert ring.stat()["readers"][0]["state"] == "dead"
        if on_dead == "evict":
            for i in range(1000):  # many times the ring
                w.write(b"%d" % i, timeout=5)
            assert ring.stat()["evicted"] == 1 and w.evict_dead() == 0
            with ring.reader("next") as r:
                w.write(b"to a new one")
                assert r.read() == b"to a new one"
            return
        begun = time.monotonic()
        with pytest.raises(PeerDead, match="the reader of slot 0") as dead:
            for _ in range(1000):
                w.write(b"more", timeout=5)
        assert time.monotonic() - begun < 2 and dead.value.pid == child
        with ring.reader() as r:  # takes over where it died
            assert r.slot == 0 and r.read() == b"0"
        assert w.write(b"goes on")


def test_rings_leave_nothing_behind():
    for _ in range(3):
        StreamRing.create("64KiB", "f4").close()
    with nothing_left():
        for _ in range(50):
            with StreamRing.create("64KiB", "f4", readers=3) as ring, ring.writer() as w, ring.reader() as r:
                r.fileno()
                w.write(np.ones(5, "f4"))
                with ring.reader(), r.peek(2) as window:
                    view = memoryview(window)
                del view, window
            with pytest.raises(ValueError, match="closed"):
                ring.writer()
            ring.close()


def test_views_outlive_windows_ends_and_ring():
    with nothing_left():
        ring = MessageRing.create(4096)
        with ring, ring.writer() as w, ring.reader() as r:
            w.write(b"still here")
            with r.peek() as window:
                view = memoryview(window)
        assert bytes(view) == b"still here" and ring.closed
        array = np.asarray(view)
        del view, window, w, r, ring
        assert array[0] == ord("s")
        del array


def test_close_under_ends_changes_nothing():
    ring = MessageRing.create(4096)
    with ring.writer() as w, ring.reader() as r:
        with pytest.raises(BufferError, match="writers and readers"):
            ring.close()
        w.write(b"x")
        assert r.read() == b"x"
    ring.close()
    ring.close()
    assert repr(ring) == "<MessageRing of 4 KiB, closed>"


def test_a_named_ring_is_attached_as_ring():
    with StreamRing.create(4096, "u1", name=NAME, keep=True) as ring:
        with Ring.attach(NAME) as there:
            assert type(there) is StreamRing
        ring.unlink()


def test_shared_memory_that_is_no_ring_is_told_so():
    with SharedRegion.create(4096, name=NAME + "-plain") as region:
        with pytest.raises(RingCorrupt, match=f"'{NAME}-plain' is shared memory, but no ring"):
            Ring.attach(NAME + "-plain")
        region.unlink()
