"""Rings and descriptors: the kernel writes into claimed windows and reads from peeked ones."""

import os
import socket
import threading

import numpy as np
import pytest

from zerosys import MessageRing, StreamRing


def test_items_are_received_and_sent_without_a_buffer_between():
    data = np.random.default_rng(1).integers(0, 1 << 30, 50_000).astype("i4")
    source, feeding = os.pipe()
    near, far = socket.socketpair()
    got = bytearray()

    def feed():
        with open(feeding, "wb") as file:
            file.write(data.tobytes())

    def drain():
        while part := far.recv(1 << 16):
            got.extend(part)

    def forward(ring):
        with ring.reader() as r, near:
            sent.append(r.send(near, timeout=20))

    sent = []
    with StreamRing.create("16KiB", "i4") as ring, far:
        threads = [threading.Thread(target=work) for work in (feed, drain)]
        threads.append(threading.Thread(target=forward, args=[ring]))
        for thread in threads:
            thread.start()
        with ring.writer() as w:
            received = 0
            while n := w.receive(source, 1000, timeout=20):
                received += n
        for thread in threads:
            thread.join(20)
    os.close(source)
    assert received == sum(sent) == 50_000 and got == data.tobytes()


def test_an_item_that_is_cut_is_kept_for_the_next_receive():
    r_fd, w_fd = os.pipe()
    with StreamRing.create(4096, "u4") as ring, ring.writer() as w, ring.reader() as r:
        os.write(w_fd, bytes(range(10)))
        with pytest.raises(TimeoutError) as stopped:
            w.receive(r_fd, 4, timeout=0.05)
        assert stopped.value.moved == 2 == r.available
        os.write(w_fd, bytes(range(10, 16)))
        assert w.receive(r_fd, 2, timeout=5) == 2
        with r.peek(4) as window:
            assert window.raw == bytes(range(16))
        os.write(w_fd, b"abc")
        os.close(w_fd)
        with pytest.raises(ValueError, match="ended inside an item: 3 of 4"):
            w.receive(r_fd, 1)
    os.close(r_fd)


def test_an_item_that_is_cut_goes_on_at_the_next_send():
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with near, far, StreamRing.create(1 << 20, "V1000") as ring, ring.writer() as w, ring.reader() as r:
        data = np.random.default_rng(2).bytes(1_000_000)
        w.write(data)
        with pytest.raises(TimeoutError) as stopped:
            r.send(near, 1000, timeout=0.05)
        went = stopped.value.moved
        assert 0 < went < 1000 and r.available == 1000 - went
        got = bytearray()

        def drain():
            while len(got) < len(data):
                got.extend(far.recv(1 << 16))

        thread = threading.Thread(target=drain)
        thread.start()
        assert r.send(near, 1000 - went, timeout=20) == 1000 - went
        thread.join(20)
        assert got == data and r.lag == 0


def test_a_datagram_is_a_message():
    near, far = socket.socketpair(type=socket.SOCK_DGRAM)
    out, seen = socket.socketpair(type=socket.SOCK_DGRAM)
    with near, far, out, seen, MessageRing.create(4096) as ring, ring.writer() as w, ring.reader() as r:
        for message in (b"one", b"twotwo", b"3" * 1000):
            near.send(message)
            assert w.receive(far, 2000, timeout=5) == len(message)
            assert r.send(out, timeout=5) == len(message)
            assert seen.recv(4096) == message
        with pytest.raises(TimeoutError, match="nothing came"):
            w.receive(far, 2000, timeout=0.05)
        assert r.available == 0
        w.close()
        assert r.send(out) is None


def test_the_end_of_the_input_is_the_end():
    r_fd, w_fd = os.pipe()
    os.write(w_fd, b"left")
    os.close(w_fd)
    with MessageRing.create(4096) as ring, ring.writer() as w, ring.reader() as r:
        assert w.receive(r_fd, 100) == 4 and w.receive(r_fd, 100) is None
        assert r.read() == b"left" and r.try_read() is None
    os.close(r_fd)


def test_what_may_be_overwritten_is_not_sent():
    with StreamRing.create(4096, "u1", on_full="overwrite") as ring, ring.reader() as r:
        with pytest.raises(ValueError, match="could overwrite"):
            r.send(1)
    with MessageRing.create(4096, on_full="overwrite") as ring, ring.reader() as r:
        with pytest.raises(ValueError, match="could overwrite"):
            r.send(1)


def test_a_broken_sink_tells_how_far_it_got():
    near, far = socket.socketpair()
    with near, StreamRing.create(4096, "u1") as ring, ring.writer() as w, ring.reader() as r:
        w.write(bytes(1000))
        far.close()
        with pytest.raises(BrokenPipeError) as broken:
            r.send(near, 1000)
        assert broken.value.moved == 0 and r.available == 1000
