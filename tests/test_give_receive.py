"""give(), receive() and send_zerocopy(): who may still write to the bytes, and when a buffer is free."""

import errno
import os
import random
import socket
import time

import pytest
from counts import nothing_left
from ends import Background, Source, tcp_pair
from memory import PAGE
from seccomp import Refuse, refused

from zerosys import (
    PumpError,
    PumpTimeout,
    SharedRegion,
    ShortSource,
    _mmap,
    give,
    receive,
    send_zerocopy,
    set_pipe_capacity,
    splice,
    vmsplice,
)
from zerosys._mmap import Mapping
from zerosys.pumps.zerocopy import ZeroCopySend, _Completions

MSG_ZEROCOPY = 0x4000000
DATA = random.Random(10).randbytes(300_000)


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def private(pages):
    mapping = Mapping(None, pages * PAGE, flags=_mmap.MAP_PRIVATE)
    with memoryview(mapping) as view:
        for page in range(pages):
            view[page * PAGE : (page + 1) * PAGE] = bytes([page % 250 + 1]) * PAGE
    return mapping


def test_what_is_given_is_not_changed_by_a_later_write_and_what_is_lent_is(pipe):
    """FAULTS S1: the empty pipe proves nothing; only a copy, or pages given for good, are safe."""
    second, far = os.pipe()
    for send, seen in ((give, b"old!"), (lambda buffer, end: vmsplice(end, buffer), b"new!")):
        buffer = bytearray(b"old!" + bytes(PAGE))
        send(buffer, pipe[1])
        assert splice(pipe[0], far, 4) == 4
        buffer[:4] = b"new!"
        assert os.read(second, 4) == seen
        while os.read(pipe[0], 2 * PAGE) == b"":
            pass
    os.close(second)
    os.close(far)


def test_a_private_mapping_is_handed_away_for_good(pipe):
    """FAULTS S2: its pages are the reader's, and the mapping cannot be used any more."""
    set_pipe_capacity(pipe[1], 4 * PAGE)
    mapping = private(20)
    reader = Background(_read_exactly, pipe[0], 20 * PAGE)
    result = give(mapping, pipe[1], timeout=30)
    assert reader.result() == b"".join(bytes([page + 1]) * PAGE for page in range(20))
    assert (result.moved, result.copied, result.path, result.aliases) == (20 * PAGE, 0, "gift", False)
    assert mapping.closed
    with pytest.raises(ValueError, match="closed"):
        memoryview(mapping)


def _read_exactly(fd, size):
    parts = b""
    while len(parts) < size:
        parts += os.read(fd, size - len(parts))
    return parts


def test_a_gift_that_nobody_reads_ends_in_time_and_keeps_the_rest(pipe):
    set_pipe_capacity(pipe[1], 16 * PAGE)
    with private(64) as mapping:
        with pytest.raises(PumpTimeout) as late:
            give(mapping, pipe[1], timeout=0.3)
        assert (late.value.moved, late.value.side) == (16 * PAGE, "sink")
        with memoryview(mapping) as view:
            assert view[16 * PAGE] == 17  # not given, and still there


def test_shared_memory_is_never_given(pipe):
    with SharedRegion.create(PAGE) as region, pytest.raises(ValueError, match="peer"):
        give(region, pipe[1])
    with Mapping(None, PAGE) as shared, pytest.raises(ValueError, match="pump"):
        give(shared, pipe[1])


def test_a_pipe_without_a_reader_is_told_as_the_sink():
    reader, writer = os.pipe()
    os.close(reader)
    for buffer in (b"bytes", private(1)):
        with pytest.raises(PumpError) as broken:
            give(buffer, writer)
        assert (broken.value.errno, broken.value.side, broken.value.moved) == (errno.EPIPE, "sink", 0)
    os.close(writer)


@pytest.mark.parametrize("kind", ["file", "pipe", "tcp", "unix"])
def test_bytes_are_received_straight_into_a_region(kind, tmp_path):
    source = Source(kind, DATA, tmp_path)
    with SharedRegion.create(len(DATA) + 10) as region:
        result = receive(source.fd, region, len(DATA), timeout=30)
        assert bytes(region)[: len(DATA)] == DATA
    source.close()
    assert (result.received, result.copied, result.moved) == (len(DATA), 0, 0)


def test_what_does_not_come_is_told_with_what_did(tmp_path):
    source = Source("pipe", b"abc", tmp_path)
    place = bytearray(5)
    with pytest.raises(ShortSource) as short:
        receive(source.fd, place)
    assert short.value.moved == 3 and place[:3] == b"abc"
    source.close()
    near, far = socket.socketpair()
    with near, far, pytest.raises(PumpTimeout) as late:
        far.send(b"ab")
        receive(near, place, timeout=0.1)
    assert (late.value.moved, late.value.side, place[:2]) == (2, "source", b"ab")


def test_a_unix_socket_has_no_zero_copy_and_the_buffer_is_free_at_once():
    near, far = socket.socketpair()
    with near, far:
        sent = send_zerocopy(near, b"bytes")
        assert sent.done() and sent.copied and sent.bytes == 5
        assert far.recv(10) == b"bytes"


def test_loopback_copies_after_all_and_says_so():
    near, far = tcp_pair()
    buffer = bytearray(DATA)
    with near, far, nothing_left():
        reader = Background(_receive_exactly, far, len(DATA))
        sent = send_zerocopy(near, buffer, timeout=30)
        sent.wait(timeout=30)
        assert sent.done() and sent.copied and sent.bytes == len(DATA)
        assert reader.result() == DATA
        buffer.append(0)  # no view of it is left


def _receive_exactly(sock, size):
    got = bytearray()
    while len(got) < size:
        got += sock.recv(size - len(got))
    return bytes(got)


def test_the_buffer_is_held_until_it_is_free():
    near, far = tcp_pair()
    with near, far:
        buffer = bytearray(b"some bytes")
        sent = send_zerocopy(near, buffer)
        if not sent.done():
            with pytest.raises(BufferError):
                buffer.append(0)
        assert far.recv(100) == b"some bytes"
        sent.wait(timeout=30)
        buffer.append(0)


def test_a_hundred_thousand_small_sends_never_hang():
    near, far = tcp_pair()
    with near, far:
        reader = Background(_receive_exactly, far, 800_000)
        for number in range(100_000):
            last = send_zerocopy(near, number.to_bytes(8, "little"), timeout=30)
        last.wait(timeout=30)
        got = reader.result()
    assert all(int.from_bytes(got[8 * n : 8 * n + 8], "little") == n for n in range(0, 100_000, 997))


NOTHING_TO_PIN = """
import socket
from zerosys import send_zerocopy
with socket.create_server(("127.0.0.1", 0)) as listener:
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
sent = send_zerocopy(near, b"bytes", timeout=30)
print(sent.done(), sent.copied, far.recv(10))
"""


def test_where_no_memory_may_be_pinned_bytes_are_copied_and_nobody_waits_for_ever():
    """FAULTS S12: ENOBUFS although nothing is outstanding."""
    done = refused([Refuse("sendto", errno.ENOBUFS, arg=3, bits=MSG_ZEROCOPY)], NOTHING_TO_PIN)
    assert (done.stdout.split(), done.stderr) == (["True", "True", "b'bytes'"], "")


def test_a_full_socket_ends_in_time_without_spinning():
    near, far = tcp_pair()
    with near, far:
        before = time.process_time()
        with pytest.raises(PumpTimeout) as late:
            send_zerocopy(near, bytes(64 << 20), timeout=0.5)
        assert time.process_time() - before < 0.4
        assert 0 < late.value.moved == late.value.send.bytes < 64 << 20


def test_two_threads_send_on_one_socket_and_each_buffer_comes_free():
    near, far = tcp_pair()
    with near, far:
        reader = Background(_receive_exactly, far, 2 * 200 * 1000)

        def send_many():
            for _ in range(200):
                send_zerocopy(near, bytes(1000), timeout=30).wait(timeout=30)

        threads = [Background(send_many) for _ in range(2)]
        for thread in threads:
            thread.result()
        reader.result()


@pytest.mark.parametrize(
    ("first", "last", "free"),
    [(4294967294, 4294967294, "a"), (4294967294, 0, "abc"), (4294967295, 1, "bcd"), (0, 1, "cd"), (2, 3, "")],
)
def test_an_answer_is_a_range_of_numbers_that_wraps(first, last, free):
    queue = _Completions(-1, True)
    sends = {}
    for number, name in ((4294967294, "a"), (4294967295, "b"), (0, "c"), (1, "d")):
        sends[name] = ZeroCopySend(queue, memoryview(b""))
        sends[name]._open = 1
        queue.open.append((number, sends[name]))
    queue._close(first, (last - first) % 2**32, False)
    assert "".join(name for name, sent in sends.items() if not sent._open) == free
    assert "".join(name for name, sent in sends.items() if sent._open) == "".join(
        name for _, one in queue.open for name, sent in sends.items() if sent is one
    )


def test_the_numbers_of_a_socket_are_counted_as_the_kernel_does():
    near, far = tcp_pair()
    with near, far:
        sends = [send_zerocopy(near, bytes(10)) for _ in range(5)]
        _receive_exactly(far, 50)
        for sent in sends:
            sent.wait(timeout=30)
