"""splice and tee: the right bytes, offsets, flags, short counts and the end of input."""

import os
import socket

import pytest
from ends import Background, no_descriptor_left, tcp_pair

import zerosys
from zerosys.flags import SpliceFlag

FAR = 2**32 + 5


@pytest.fixture
def pipe():
    with no_descriptor_left():
        ends = os.pipe()
        yield ends
        for fd in ends:
            os.close(fd)


@pytest.fixture
def file(tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        file.write(b"0123456789")
        file.seek(0)
        yield file


def test_bytes_go_from_file_to_pipe_by_the_files_own_position(pipe, file):
    r, w = pipe
    assert zerosys.splice(file.fileno(), w, 4) == 4
    assert zerosys.splice(file.fileno(), w, 100) == 6
    assert os.read(r, 100) == b"0123456789"
    assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 10
    assert zerosys.splice(file.fileno(), w, 100) == 0


def test_an_offset_leaves_the_files_position_alone(pipe, file):
    r, w = pipe
    assert zerosys.splice(file.fileno(), w, 3, offset_src=5) == 3
    assert os.read(r, 100) == b"567"
    assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 0


def test_bytes_go_from_pipe_to_file_at_an_offset(pipe, file):
    r, w = pipe
    os.write(w, b"abc")
    assert zerosys.splice(r, file.fileno(), 100, offset_dst=2) == 3
    assert file.read() == b"01abc56789"


def test_offsets_may_lie_beyond_four_gibibytes(pipe, file):
    r, w = pipe
    os.pwrite(file.fileno(), b"far, far away", FAR)
    assert zerosys.splice(file, w, 3, offset_src=FAR) == 3
    assert zerosys.splice(r, file, 3, offset_dst=2 * FAR) == 3
    assert os.pread(file.fileno(), 10, 2 * FAR) == b"far"


def test_an_end_may_be_any_object_with_fileno(pipe, file):
    near, far = socket.socketpair()
    with near, far, open(pipe[0], "rb", 0, closefd=False) as r, open(pipe[1], "wb", 0, closefd=False) as w:
        assert zerosys.splice(file, w, 10) == 10
        assert zerosys.splice(r, near, 10) == 10
        assert far.recv(20) == b"0123456789"


def test_integers_may_be_any_object_with_index(pipe, file):
    class Four:
        def __index__(self):
            return 4

    assert zerosys.splice(file, pipe[1], Four(), Four(), None, Four()) == 4  # 4: SPLICE_F_MORE
    assert os.read(pipe[0], 10) == b"4567"


@pytest.mark.parametrize("count", [2**31, 2**40, 2**63 - 1])
def test_a_count_beyond_all_bytes_gives_what_there_is(pipe, file, count):
    assert zerosys.splice(file, pipe[1], count) == 10


def test_a_count_of_zero_moves_nothing(pipe, file):
    assert zerosys.splice(file, pipe[1], 0) == 0
    assert zerosys.tee(pipe[0], pipe[1], 0) == 0
    assert zerosys.sendfile(pipe[1], file, 0, 0) == 0


def test_a_pipe_without_writers_is_at_its_end(pipe, file):
    r, w = os.pipe()
    os.close(w)
    assert zerosys.splice(r, file, 10) == 0
    assert zerosys.tee(r, pipe[1], 10) == 0
    os.close(r)


def test_a_pipe_without_readers_is_a_broken_pipe(file):
    r, w = os.pipe()
    os.close(r)
    with pytest.raises(BrokenPipeError):
        zerosys.splice(file, w, 10)
    os.close(w)


@pytest.mark.parametrize("flags", [SpliceFlag(0), *SpliceFlag, ~SpliceFlag(0)])
def test_every_flag_is_taken_and_moves_the_same_bytes(pipe, file, flags):
    assert zerosys.splice(file, pipe[1], 10, flags=flags) == 10
    other = os.pipe()
    assert zerosys.tee(pipe[0], other[1], 10, flags) == 10
    assert os.read(other[0], 20) == os.read(pipe[0], 20) == b"0123456789"
    for fd in other:
        os.close(fd)


def test_nonblock_answers_at_once_for_an_empty_and_a_full_pipe(pipe, file):
    r, w = pipe
    with pytest.raises(BlockingIOError):
        zerosys.splice(r, file, 10, flags=SpliceFlag.NONBLOCK)
    with open("/dev/zero", "rb") as zeros:
        while True:
            try:
                zerosys.splice(zeros, w, 1 << 20, flags=SpliceFlag.NONBLOCK)
            except BlockingIOError:
                break
    assert zerosys.pipe_occupancy(r) == zerosys.pipe_capacity(r)


def test_nonblock_covers_only_the_pipe_and_an_empty_blocking_socket_waits(pipe):
    near, far = tcp_pair()
    moving = Background(zerosys.splice, near, pipe[1], 10, None, None, SpliceFlag.NONBLOCK)
    far.send(b"at last")
    assert moving.result() == 7
    near.close()
    far.close()


def test_other_threads_run_while_a_splice_waits(pipe, file):
    moving = Background(zerosys.splice, pipe[0], file, 10)
    os.write(pipe[1], b"fed")
    assert moving.result() == 3


def test_tee_leaves_the_source_full_and_lets_threads_run(pipe):
    r, w = os.pipe()
    waiting = Background(zerosys.tee, pipe[0], w, 100)
    os.write(pipe[1], b"twice")
    assert waiting.result() == 5
    assert os.read(r, 10) == os.read(pipe[0], 10) == b"twice"
    for fd in (r, w):
        os.close(fd)
