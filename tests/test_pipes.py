"""Pipes have a capacity that is a wish, and count slots rather than bytes."""

import errno
import os
import resource
import subprocess
import sys

import pytest
from ends import no_descriptor_left
from needs import need
from seccomp import Refuse, refused

import zerosys

PAGE = resource.getpagesize()


@pytest.fixture
def pipe():
    with no_descriptor_left():
        ends = os.pipe()
        yield ends
        for fd in ends:
            os.close(fd)


def test_a_capacity_is_rounded_up_to_a_power_of_two_pages(pipe):
    assert zerosys.set_pipe_capacity(pipe[1], 5 * PAGE // 4) == 2 * PAGE
    assert zerosys.pipe_capacity(pipe[0]) == zerosys.pipe_capacity(pipe[1]) == 2 * PAGE


@pytest.mark.parametrize("size", [0, 1])
def test_the_least_is_a_page(pipe, size):
    assert zerosys.set_pipe_capacity(pipe[1], size) == PAGE


@pytest.mark.parametrize("size", [2**31, 2**40, 2**63 - 1])
def test_an_absurd_wish_gets_what_can_be_had(pipe, size):
    got = zerosys.set_pipe_capacity(pipe[1], size)
    assert got == zerosys.pipe_capacity(pipe[1]) >= 16 * PAGE


def test_a_pipe_that_holds_more_stays_as_it_is(pipe):
    os.write(pipe[1], bytes(8 * PAGE))
    assert zerosys.set_pipe_capacity(pipe[1], PAGE) == zerosys.pipe_capacity(pipe[1]) == 16 * PAGE


MANY = """
import os, resource, zerosys
zerosys.set_pipe_capacity, zerosys.pipe_capacity  # loaded before their files may be out of reach
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
os.setresuid(65534, 65534, 65534)
limit = int(open("/proc/sys/fs/pipe-max-size").read())
kept = [os.pipe() for _ in range(200)]
got = [zerosys.set_pipe_capacity(w, 1 << 20) for _, w in kept]
assert got == [zerosys.pipe_capacity(w) for _, w in kept]
assert zerosys.set_pipe_capacity(os.pipe()[1], 4 * limit) <= limit
print(got[0], min(got) < got[0])
"""


def test_beyond_the_users_page_budget_a_pipe_stays_small_and_nobody_is_refused():
    need("root", "this test becomes another user" if os.geteuid() else None)
    child = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, timeout=60)
    assert (child.stdout, child.stderr) == ("1048576 True\n", "")


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOMEM, errno.EBUSY])
def test_a_kernel_that_refuses_leaves_the_capacity_there_was(number):
    code = "import os, zerosys; print(zerosys.set_pipe_capacity(os.pipe()[1], 1 << 20))"
    child = refused([Refuse("fcntl", number, arg=1, equals=1031)], code)
    assert (child.stdout, child.stderr) == (f"{16 * PAGE}\n", "")


def test_another_refusal_is_an_error():
    code = "import os, zerosys; zerosys.set_pipe_capacity(os.pipe()[1], 1 << 20)"
    child = refused([Refuse("fcntl", errno.ENOSYS, arg=1, equals=1031)], code)
    assert "OSError: [Errno 38] fcntl(F_SETPIPE_SZ): Function not implemented" in child.stderr


def test_occupancy_counts_the_bytes_that_wait(pipe):
    assert zerosys.pipe_occupancy(pipe[0]) == 0
    os.write(pipe[1], b"abc")
    assert zerosys.pipe_occupancy(pipe[0]) == zerosys.pipe_occupancy(pipe[1]) == 3


def test_sixteen_bytes_may_fill_a_pipe(pipe, tmp_path):
    (tmp_path / "byte").write_bytes(b"x")
    with open(tmp_path / "byte", "rb") as source:
        for _ in range(16):
            assert zerosys.splice(source, pipe[1], 1, offset_src=0, flags=2) == 1
        with pytest.raises(BlockingIOError):
            zerosys.splice(source, pipe[1], 1, offset_src=0, flags=2)
    assert zerosys.pipe_occupancy(pipe[0]) == 16


def test_what_is_no_pipe_is_named(tmp_path):
    with open(tmp_path / "file", "w") as file:
        for call in (zerosys.pipe_capacity, lambda fd: zerosys.set_pipe_capacity(fd, PAGE)):
            with pytest.raises(OSError, match=f"descriptor {file.fileno()} is open, but it is not a pipe"):
                call(file)
        with pytest.raises(OSError) as refusal:
            zerosys.pipe_occupancy(10**6)
    assert refusal.value.errno == errno.EBADF
