"""Transfer on odd ground: no budget for pipes, kernels that refuse, ends that lie to poll, random streams."""

import errno
import os
import random
import socket
import subprocess
import sys
import time

import pytest
from ends import Background, read_all, shrink
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import need
from seccomp import Refuse, refused

from zerosys._transfer import Transfer

UNPRIVILEGED = """
import os, sys
from zerosys._splice import set_pipe_capacity
from zerosys._transfer import Transfer
source, sink = open("/dev/zero", "rb", buffering=0), open("/dev/null", "wb", buffering=0)
os.setuid(65534)
pipes = [os.pipe() for _ in range(400)]
sizes = [set_pipe_capacity(writer, 1 << 20) for _, writer in pipes]
with Transfer(source, sink, 1 << 20, pipe_size=1 << 20) as transfer:
    print(min(sizes), transfer.pipe_size, transfer.run(timeout=30), transfer.path)
"""


def test_a_user_whose_pipe_budget_is_spent_still_transfers():
    need("root", None if os.geteuid() == 0 else "only root can become another user")
    with open("/proc/sys/fs/pipe-user-pages-soft") as limit:
        soft = int(limit.read()) * os.sysconf("SC_PAGESIZE")
    need("pipe budget", None if 0 < soft < 400 << 20 else f"fs.pipe-user-pages-soft allows {soft} bytes")
    child = subprocess.run([sys.executable, "-c", UNPRIVILEGED], capture_output=True, text=True, timeout=60)
    smallest, got, carried, path = child.stdout.split()
    assert child.stderr == ""
    assert 0 < int(got) < 1 << 20 and int(smallest) < 1 << 20
    assert (int(carried), path) == (1 << 20, "splice-pipe-splice")


WITHOUT = """
import os, sys
from zerosys._transfer import Transfer
reader, writer = os.pipe()
with Transfer(bytes(range(256)) * 1024, writer) as give:
    try:
        give.run(timeout=0.1)
    except TimeoutError as late:
        assert late.side == "sink", late.side
    assert give.delivered == 65536, give.delivered
    place = bytearray(100_000)
    with Transfer(reader, place) as take:
        try:
            take.run(timeout=0.1)
        except TimeoutError as late:
            assert late.side == "source", late.side
        assert take.delivered == 65536
    assert place[:65536] == bytes(range(256)) * 256
"""


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_blocking_pipe_never_blocks_us_on_a_kernel_that_cannot_promise_it(number):
    """Before Linux 6.4 pipes knew no RWF_NOWAIT: poll first, and write no more than one slot holds."""
    done = refused([Refuse("preadv2", number), Refuse("pwritev2", number)], WITHOUT)
    assert (done.returncode, done.stderr) == (0, "")


PIPED = """
import socket, tempfile
from zerosys._transfer import Transfer
data = bytes(range(250)) * 800
near, far = socket.socketpair()
with tempfile.TemporaryFile(buffering=0) as file:
    file.write(data)
    with Transfer(file, near, offset_src=0) as transfer:
        got = b""
        while len(got) < len(data):
            try:
                transfer.run(timeout=0.01)
            except TimeoutError:
                pass
            got += far.recv(1 << 20)
        print(got == data, transfer.path, transfer.copied, near.getblocking())
"""


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL])
def test_where_there_is_no_splice_bytes_are_read_and_written(number):
    done = refused([Refuse("splice", number), Refuse("sendfile", number)], PIPED)
    assert (done.stdout.split(), done.stderr) == (["True", "read-write", "200000", "True"], "")


def test_an_end_that_poll_calls_ready_and_that_moves_nothing_does_not_make_us_spin():
    """An eventfd is writable while it can take 1, and refuses more than it has room for."""
    with open(os.eventfd(2, os.EFD_NONBLOCK), "wb", buffering=0) as event:
        most = (2**64 - 2).to_bytes(8, sys.byteorder)
        with Transfer(most, event) as transfer, pytest.raises(TimeoutError) as late:
            before = time.process_time()
            transfer.run(timeout=0.5)
        assert time.process_time() - before < 0.1
        assert (late.value.side, late.value.moved) == ("sink", 0)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=20),
    reads=st.lists(st.integers(1, 20_000), min_size=1, max_size=10),
    pipe_size=st.sampled_from([1, 4096, 65536, 1 << 20]),
    kinds=st.tuples(st.sampled_from(["pipe", "unix"]), st.sampled_from(["pipe", "unix"])),
    touch=st.booleans(),
    cut=st.integers(0, 100_000),
)
def test_whatever_the_pieces_and_the_pauses_every_byte_arrives_in_order(
    sizes, reads, pipe_size, kinds, touch, cut
):
    """Pieces of any size are fed between runs that do not wait, and read in pieces of any size."""
    pieces = [random.Random(size).randbytes(size) for size in sizes]
    data = b"".join(pieces)[:cut] if cut < sum(sizes) else b"".join(pieces)
    (source, feed), (near, far) = _ends(kinds[0]), _ends(kinds[1])[::-1]
    if kinds[1] == "unix":
        near, far = far, near
        with socket.socket(fileno=os.dup(near)) as a, socket.socket(fileno=os.dup(far)) as b:
            shrink(a, b)
    os.set_blocking(feed, False)
    os.set_blocking(far, False)
    got = b""
    with Transfer(source, near, len(data), pipe_size=pipe_size, touch_flags=touch) as transfer:
        turn = 0
        while not transfer.done:
            if pieces:
                pieces[0] = pieces[0][_some(os.write, feed, pieces[0]) :]
                pieces = pieces if pieces[0] else pieces[1:]
            _run(transfer)
            got += _some(os.read, far, reads[turn % len(reads)]) or b""
            turn += 1
            assert transfer.delivered + transfer.stranded <= len(data)
        assert os.get_blocking(near)
        assert transfer.moved + transfer.copied == transfer.delivered == len(data)
    os.close(near)
    os.set_blocking(far, True)
    got += read_all(far)
    for fd in (source, feed, far):
        os.close(fd)
    assert got == data


def _ends(kind):
    """(one to read, one to write)"""
    if kind == "pipe":
        return os.pipe()
    return tuple(end.detach() for end in socket.socketpair())


def _some(call, fd, what):
    try:
        return call(fd, what)
    except BlockingIOError:
        return 0


def _run(transfer):
    try:
        transfer.run(timeout=0)
    except TimeoutError as late:
        assert late.side in ("source", "sink", None)


def test_two_transfers_at_once_do_not_mix():
    pairs = [(os.pipe(), os.pipe()) for _ in range(2)]
    runs = []
    for number, ((source, feed), (_, sink)) in enumerate(pairs):
        transfer = Transfer(source, sink, 30_000)
        runs.append((transfer, Background(transfer.run, 30)))
        os.write(feed, bytes([number]) * 30_000)
    for number, ((transfer, run), ((source, feed), (far, sink))) in enumerate(zip(runs, pairs, strict=True)):
        assert run.result() == 30_000
        transfer.close()
        assert os.read(far, 30_000) == bytes([number]) * 30_000
        for fd in (source, feed, far, sink):
            os.close(fd)


def test_an_offset_that_a_sink_in_append_mode_would_ignore_is_refused(tmp_path):
    file = tmp_path / "log"
    file.write_bytes(b"hello")
    fd = os.open(file, os.O_WRONLY | os.O_APPEND)
    with pytest.raises(ValueError, match="O_APPEND"):
        Transfer(b"XX", fd, offset_dst=0)
    with Transfer(b"XX", fd) as transfer:
        assert transfer.run() == 2
    os.close(fd)
    assert file.read_bytes() == b"helloXX"


def test_a_count_may_be_any_integer(tmp_path):
    class Three:
        def __index__(self):
            return 3

    into = bytearray(5)
    with Transfer(b"abcdef", into, Three()) as transfer:
        assert transfer.run() == 3
    assert into == b"abc\0\0"
    with pytest.raises(ValueError, match="count is 3, but src has 2 bytes"):
        Transfer(b"ab", into, Three())


@pytest.mark.parametrize("kind", [socket.SOCK_SEQPACKET, socket.SOCK_DGRAM])
def test_a_message_that_does_not_fit_is_an_error_and_loses_nothing(kind):
    near, far = socket.socketpair(socket.AF_UNIX, kind)
    into = bytearray(5)
    sink = os.memfd_create("sink")
    with near, far:
        near.send(b"abc")
        near.send(b"defg")
        with Transfer(far, into) as transfer:
            with pytest.raises(OSError) as refused_:
                transfer.run(1)
            assert refused_.value.errno == errno.EMSGSIZE
            assert (refused_.value.side, refused_.value.moved, transfer.received) == ("source", 3, 3)
        with Transfer(far, sink, 3) as transfer, pytest.raises(OSError):
            transfer.run(1)
        with Transfer(far, sink, 4) as transfer:
            assert transfer.run(1) == 4
    assert bytes(into) == b"abc\0\0" and os.pread(sink, 9, 0) == b"defg"
    os.close(sink)
