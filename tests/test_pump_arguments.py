"""Ends that are none, or cannot do what is wanted: each is named, and nothing is taken from the source."""

import asyncio
import errno
import os
import socket
from contextlib import ExitStack

import pytest
from counts import nothing_left
from ends import tcp_pair

from zerosys import PumpError, WouldCopy, pump, relay
from zerosys.pumps import aio

DATA = bytes(range(256)) * 8192  # 2 MiB: more than the private pipe
CLOSED = 2**20 - 1  # no descriptor has this number here


def aio_pump(*arguments, **options):
    return asyncio.run(aio.pump(*arguments, **options))


def aio_relay(*arguments):
    return asyncio.run(aio.relay(*arguments))


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").write_bytes(DATA)
    fd = os.open(tmp_path / "in", os.O_RDONLY)
    yield fd
    os.close(fd)


both = pytest.mark.parametrize("pump", [pump, aio_pump])


@both
def test_a_closed_descriptor_is_named_with_its_side_and_number(pump, source):
    cases = [
        ((CLOSED, 1), "src"),
        ((source, CLOSED), "dst"),
        ((CLOSED, bytearray(4)), "src"),
        ((b"bytes", CLOSED), "dst"),
    ]
    for ends, name in cases:
        with (
            nothing_left(),
            pytest.raises(OSError, match=rf"{name} is not an open descriptor \({CLOSED}\)") as bad,
        ):
            pump(*ends)
        assert bad.value.errno == errno.EBADF


@both
def test_a_closed_descriptor_among_many_sinks_is_named(pump, source):
    with pytest.raises(OSError, match=rf"is not an open descriptor \({CLOSED}\)"):
        pump(source, [source, CLOSED])


@pytest.mark.parametrize("relay", [relay, aio_relay])
def test_a_relays_closed_descriptor_is_named_with_its_side_and_number(relay):
    near, far = socket.socketpair()
    with near, far:
        for ends, name in (((CLOSED, near), "a"), ((near, CLOSED), "b")):
            with pytest.raises(OSError, match=rf"{name} is not an open descriptor \({CLOSED}\)"):
                relay(*ends)


@both
def test_a_path_is_no_end_and_is_told_to_be_opened(pump, source, tmp_path):
    for ends, name in (((str(tmp_path / "in"), source), "src"), ((source, tmp_path / "out"), "dst")):
        with pytest.raises(TypeError, match=rf"{name} must be a descriptor .*: open it"):
            pump(*ends)
    with pytest.raises(TypeError, match=r"dst must be a descriptor .* not NoneType"):
        pump(source, None)


@pytest.mark.parametrize("relay", [relay, aio_relay])
def test_a_relays_path_is_no_end(relay):
    near, far = socket.socketpair()
    with near, far:
        for ends, name in ((("path", near), "a"), ((near, "path"), "b")):
            with pytest.raises(TypeError, match=f"{name} must be a .* not str"):
                relay(*ends)


@both
def test_a_file_that_is_open_the_other_way_says_so(pump, source, tmp_path):
    with open(os.devnull, "rb") as reads, open(tmp_path / "out", "wb") as writes:
        with pytest.raises(PumpError, match=r"dst .* is open for reading only") as bad:
            pump(source, reads)
        assert (bad.value.errno, bad.value.side) == (errno.EBADF, "sink")
        with pytest.raises(PumpError, match=r"src .* is open for writing only") as bad:
            pump(writes, source)
        assert (bad.value.errno, bad.value.side) == (errno.EBADF, "source")


# -- strict decides before it takes ---------------------------------------------------------------


def _appending(stack, tmp_path):
    return stack.enter_context(open(tmp_path / "log", "ab"))


def _full(stack, tmp_path):
    return stack.enter_context(open("/dev/full", "wb"))


@both
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("sink", [_appending, _full])
@pytest.mark.parametrize("kind", ["file", "pipe", "tcp"])
def test_strict_takes_nothing_from_a_source_whose_sink_would_need_a_copy(
    kind, sink, many, pump, source, tmp_path
):
    with ExitStack() as stack:
        dst = sink(stack, tmp_path)
        src = _holding(kind, stack, source)
        with pytest.raises(WouldCopy) as refused:
            pump(src, [dst] if many else dst, strict=True)
        assert (refused.value.side, refused.value.moved, refused.value.stranded) == ("sink", 0, 0)
        assert ("O_APPEND" in str(refused.value)) == (sink is _appending)
        if kind == "file":
            assert os.lseek(src, 0, os.SEEK_CUR) == 0
        else:
            assert os.read(src, 10) == b"bytes"
        if sink is _appending:
            assert os.path.getsize(tmp_path / "log") == 0


def _holding(kind, stack, file):
    if kind == "file":
        return file
    if kind == "pipe":
        reader, writer = os.pipe()
        stack.callback(os.close, reader)
        os.write(writer, b"bytes")
        os.close(writer)
        return reader
    near, far = (stack.enter_context(end) for end in tcp_pair())
    far.sendall(b"bytes")
    far.shutdown(socket.SHUT_WR)
    return near.fileno()


def test_an_offset_tells_strict_nothing_else(source, tmp_path):
    with open(tmp_path / "log", "ab") as log:
        with pytest.raises(WouldCopy, match="O_APPEND"):
            pump(source, log, offset_src=5, strict=True)
        os.lseek(source, 7, os.SEEK_SET)
        with pytest.raises(WouldCopy, match="O_APPEND"):
            pump(source, log, strict=True)
        assert os.lseek(source, 0, os.SEEK_CUR) == 7
        result = pump(source, log)  # not strict, it is copied
    assert (result.copied, (tmp_path / "log").read_bytes()) == (len(DATA) - 7, DATA[7:])
