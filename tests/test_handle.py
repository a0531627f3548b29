"""A handle on its way over a Unix socket: checked on arrival, and no descriptor is ever lost."""

import array
import json
import os
import pickle
import resource
import socket
import struct
import subprocess
import sys
import threading

import pytest
from counts import descriptors, nothing_left

from zerosys import handle
from zerosys._memfd import memfd_create
from zerosys.handle import Particulars, RegionHandle

KINDS = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM]
WORDS = Particulars(4096, 4096, "base", "memfd", {"mode": "bind", "nodes": "0"})


def made(words=WORDS):
    fd = memfd_create("handed")
    os.ftruncate(fd, 4096)
    return RegionHandle(fd, words)


@pytest.fixture(params=KINDS, ids=["stream", "seqpacket", "dgram"])
def pair(request):
    a, b = socket.socketpair(socket.AF_UNIX, request.param)
    yield a, b
    a.close()
    b.close()


def message(body, *, magic=b"zerosys\0", version=1, length=None):
    return struct.pack("!8sII", magic, version, len(body) if length is None else length) + body


def raw_send(sock, data, fds=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([data], rights)


def test_the_receiver_gets_a_descriptor_of_its_own_for_the_same_memory(pair):
    with nothing_left(), made() as sent:
        os.pwrite(sent.fileno(), b"bytes", 0)
        handle.send(pair[0], sent)
        with handle.recv(pair[1], timeout=5) as got:
            assert got.fileno() != sent.fileno()
            assert got.particulars == WORDS
            assert os.pread(got.fileno(), 5, 0) == b"bytes"
            assert not os.get_inheritable(got.fileno())


def test_handles_follow_one_another_on_one_socket(pair):
    with nothing_left():
        for size in range(1, 20):
            with made(Particulars(size, 4096, "base", "memfd", None)) as sent:
                handle.send(pair[0], sent)
        for size in range(1, 20):
            with handle.recv(pair[1], timeout=5) as got:
                assert got.particulars.size == size


GOOD = WORDS.to_json()


@pytest.mark.parametrize("count", [0, 2, 3, 253])
def test_other_than_one_descriptor_is_an_error_and_all_are_closed(pair, count):
    fd = os.open("/dev/null", os.O_RDONLY)
    with nothing_left():
        raw_send(pair[0], message(GOOD), [fd] * count)
        with pytest.raises(ValueError, match=f"not {count}"):
            handle.recv(pair[1], timeout=5)
    os.close(fd)


def words(**change):
    return json.dumps(json.loads(GOOD) | change).encode()


BAD = {
    "magic": message(GOOD, magic=b"nonsense"),
    "version": message(GOOD, version=2),
    "too long": message(GOOD, length=1 << 30),
    "empty": message(b""),
    "no JSON": message(b"\xff\xfe{"),
    "deep JSON": message(b"[" * 10_000),
    "a list": message(b"[]"),
    "a field less": message(b'{"size": 1}'),
    "a field more": message(words(more=1)),
    "size of text": message(words(size="4096")),
    "size of truth": message(words(size=True)),
    "size zero": message(words(size=0)),
    "size huge": message(words(size=1 << 80)),
    "page of three": message(words(page_size=3)),
    "policy of text": message(words(policy="bind")),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_stranger_s_bytes_are_refused_and_its_descriptor_closed(pair, data):
    fd = os.open("/dev/null", os.O_RDONLY)
    with nothing_left():
        raw_send(pair[0], data, [fd])
        with pytest.raises(ValueError, match=r"handle|zerosys"):
            handle.recv(pair[1], timeout=5)
    os.close(fd)


def test_a_stream_that_ends_half_way_is_an_end_of_file_and_leaves_nothing():
    a, b = socket.socketpair()
    fd = os.open("/dev/null", os.O_RDONLY)
    with nothing_left():
        raw_send(a, message(GOOD)[:20], [fd])
        a.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError):
            handle.recv(b, timeout=5)
    for thing in (a, b):
        thing.close()
    os.close(fd)


def test_a_stream_in_single_bytes_is_put_together():
    a, b = socket.socketpair()
    with nothing_left(), made() as sent:
        data = message(GOOD)
        raw_send(a, data[:1], [sent.fileno()])

        def trickle():
            for byte in data[1:]:
                a.sendall(bytes([byte]))

        thread = threading.Thread(target=trickle)
        thread.start()
        handle.recv(b, timeout=5).close()
        thread.join()
    a.close()
    b.close()


def test_descriptors_beyond_the_limit_are_an_error_and_leave_nothing(pair):
    fd = os.open("/dev/null", os.O_RDONLY)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with nothing_left():
        raw_send(pair[0], message(GOOD), [fd] * 50)
        free = [number for number in range(1000) if number not in descriptors()]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[10], hard))
        try:
            with pytest.raises(OSError, match="RLIMIT_NOFILE"):
                handle.recv(pair[1], timeout=5)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    os.close(fd)


def test_a_silent_peer_is_a_timeout_whatever_the_socket_s_own(pair):
    pair[1].settimeout(None)
    with nothing_left(), pytest.raises(TimeoutError):
        handle.recv(pair[1], timeout=0.05)
    pair[1].setblocking(False)
    with pytest.raises(TimeoutError):
        handle.recv(pair[1], timeout=0)


@pytest.mark.parametrize("own", [0.01, 3600])
def test_a_timeout_of_the_socket_s_own_neither_shortens_nor_lengthens_ours(pair, own):
    for sock in pair:
        sock.settimeout(own)
    with pytest.raises(TimeoutError, match="the other side did nothing"):
        handle.recv(pair[1], timeout=0.05)
    with nothing_left(), made() as sent:
        handle.send(pair[0], sent)
        handle.recv(pair[1], timeout=1e9).close()


def test_a_timeout_past_what_poll_takes_is_waited_for_in_parts():
    a, b = socket.socketpair()
    thread = threading.Thread(target=lambda: handle.send(a, sent))
    with made() as sent:
        thread.start()
        handle.recv(b, timeout=1e9).close()
        thread.join()
    a.close()
    b.close()


def test_a_peer_that_takes_nothing_is_a_timeout_and_the_handle_stays():
    a, b = socket.socketpair()
    a.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            a.send(bytes(65536))
    with made() as sent:
        with pytest.raises(TimeoutError):
            handle.send(a, sent, timeout=0.05)
        assert not sent.closed
    a.close()
    b.close()


def test_a_peer_that_has_gone_is_its_error_and_no_signal():
    a, b = socket.socketpair()
    b.close()
    with made() as sent, pytest.raises(BrokenPipeError):
        handle.send(a, sent)
    a.close()


def test_a_closed_handle_says_so():
    got = made()
    got.close()
    got.close()
    assert got.closed
    with pytest.raises(ValueError, match="closed"):
        got.fileno()


def test_a_dropped_handle_closes_its_descriptor():
    with nothing_left():
        made()


def test_plain_pickle_is_refused_with_the_remedy():
    with made() as it, pytest.raises(TypeError, match=r"Process.*handle\.send"):
        pickle.dumps(it)


def test_what_is_no_handle_or_no_unix_socket_is_refused_by_the_sender():
    with socket.socket(socket.AF_INET) as tcp, made() as it, pytest.raises(ValueError, match="AF_UNIX"):
        handle.send(tcp, it)
    a, b = socket.socketpair()
    with a, b, pytest.raises(TypeError, match=r"region\.handle\(\)"):
        handle.send(a, object())


def test_the_module_is_there_when_only_the_package_was_imported():
    code = "import zerosys; print(zerosys.handle.send.__name__, zerosys.shared_memory.SharedMemory.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("send SharedMemory\n", "")
