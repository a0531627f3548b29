"""What each pair of descriptors answers, held against the same call through ctypes; and absurd arguments."""

import errno
import os

import libc
import pytest
from ends import no_descriptor_left
from kinds import MAKERS, descriptor

import zerosys
from zerosys.flags import SpliceFlag

CALLS = {
    "splice": lambda src, dst: zerosys.splice(src, dst, libc.COUNT, flags=SpliceFlag.NONBLOCK),
    "tee": lambda src, dst: zerosys.tee(src, dst, libc.COUNT, SpliceFlag.NONBLOCK),
    "sendfile": lambda src, dst: zerosys.sendfile(dst, src, None, libc.COUNT),
    "copy_file_range": lambda src, dst: zerosys.copy_file_range(src, dst, libc.COUNT),
}


def outcome(call, *arguments):
    """The result, or -errno as the referee says it."""
    try:
        return call(*arguments)
    except OSError as refusal:
        return -refusal.errno


@pytest.mark.parametrize("src", MAKERS)
@pytest.mark.parametrize("call", CALLS)
def test_every_pair_of_descriptors_answers_as_the_kernel_does(call, src, tmp_path):
    seen, expected = {}, {}
    with no_descriptor_left():
        for dst in MAKERS:
            for answers, function in ((expected, getattr(libc, call)), (seen, CALLS[call])):
                with descriptor(src, tmp_path) as a, descriptor(dst, tmp_path) as b:
                    answers[dst] = outcome(function, a, b)
    assert seen == expected


@pytest.mark.parametrize("fd", MAKERS)
def test_vmsplice_to_every_descriptor_answers_as_the_kernel_does(fd, tmp_path):
    with descriptor(fd, tmp_path) as a:
        expected = libc.vmsplice(a, bytearray(5))
    with descriptor(fd, tmp_path) as a:
        assert outcome(zerosys.vmsplice, a, bytearray(5), SpliceFlag.NONBLOCK) == expected


@pytest.mark.parametrize(
    ("call", "src", "dst", "number", "cause"),
    [
        ("splice", "file", "memfd", errno.EINVAL, "is a pipe: put one between"),
        ("splice", "pipe's reading end", "appending", errno.EINVAL, "O_APPEND"),
        ("sendfile", "file", "appending", errno.EINVAL, "O_APPEND"),
        ("copy_file_range", "file", "appending", errno.EBADF, "O_APPEND"),
        ("tee", "file", "pipe's writing end", errno.EINVAL, "src (descriptor"),
        ("tee", "pipe's reading end", "file", errno.EINVAL, "dst (descriptor"),
        ("tee", "file", "file", errno.EINVAL, "neither src"),
    ],
)
def test_a_refusal_names_the_cause_that_einval_hides(call, src, dst, number, cause, tmp_path):
    with descriptor(src, tmp_path) as a, descriptor(dst, tmp_path) as b:
        with pytest.raises(OSError) as refusal:
            CALLS[call](a, b)
    assert refusal.value.errno == number
    assert f"{call}: {os.strerror(number)}" in str(refusal.value)
    assert cause in str(refusal.value)


@pytest.mark.parametrize("call", ["splice", "tee"])
def test_both_ends_of_one_pipe_are_told_apart_from_two_pipes(call, tmp_path):
    r, w = os.pipe()
    os.write(w, b"x")
    with pytest.raises(OSError, match="ends of one pipe"):
        CALLS[call](r, w)
    os.close(r)
    os.close(w)


@pytest.mark.parametrize(
    ("call", "src", "dst"),
    [
        ("splice", "closed", "appending"),  # EBADF is about src
        ("copy_file_range", "closed", "appending"),
        ("splice", "/dev/null", "pipe's writing end"),  # EINVAL, but a pipe is there
    ],
)
def test_no_cause_is_named_that_is_not_one(call, src, dst, tmp_path):
    with descriptor(src, tmp_path) as a, descriptor(dst, tmp_path) as b:
        with pytest.raises(OSError) as refusal:
            CALLS[call](a, b)
    assert str(refusal.value).endswith(f"{call}: {os.strerror(refusal.value.errno)}")


def test_o_append_on_a_pipe_is_not_blamed(tmp_path):
    with descriptor("/dev/null", tmp_path) as src:
        r, w = os.pipe()
        appending = os.open(f"/proc/self/fd/{w}", os.O_WRONLY | os.O_APPEND)
        with pytest.raises(OSError) as refusal:
            zerosys.splice(src, appending, 1)
        for fd in (r, w, appending):
            os.close(fd)
    assert "O_APPEND" not in str(refusal.value)


TAKERS = {  # the argument named, and a call that passes it with a sound pipe and file for the rest
    ("splice", "count"): lambda r, w, f, x: zerosys.splice(f, w, x),
    ("splice", "offset_src"): lambda r, w, f, x: zerosys.splice(f, w, 1, offset_src=x),
    ("splice", "offset_dst"): lambda r, w, f, x: zerosys.splice(r, f, 1, offset_dst=x),
    ("splice", "flags"): lambda r, w, f, x: zerosys.splice(f, w, 1, flags=x),
    ("tee", "count"): lambda r, w, f, x: zerosys.tee(r, w, x),
    ("tee", "flags"): lambda r, w, f, x: zerosys.tee(r, w, 1, x),
    ("vmsplice", "flags"): lambda r, w, f, x: zerosys.vmsplice(w, b"x", x),
    ("sendfile", "offset_src"): lambda r, w, f, x: zerosys.sendfile(w, f, x, 1),
    ("sendfile", "count"): lambda r, w, f, x: zerosys.sendfile(w, f, 0, x),
    ("copy_file_range", "count"): lambda r, w, f, x: zerosys.copy_file_range(f, f, x),
    ("copy_file_range", "offset_src"): lambda r, w, f, x: zerosys.copy_file_range(f, f, 1, x),
    ("copy_file_range", "offset_dst"): lambda r, w, f, x: zerosys.copy_file_range(f, f, 1, 0, x),
    ("copy_file_range", "flags"): lambda r, w, f, x: zerosys.copy_file_range(f, f, 1, 0, 20, x),
    ("linkat", "flags"): lambda r, w, f, x: zerosys.linkat("a", "b", flags=x),
    ("set_pipe_capacity", "size"): lambda r, w, f, x: zerosys.set_pipe_capacity(w, x),
}


@pytest.fixture
def ends(tmp_path):
    r, w = os.pipe()
    f = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(f, b"0123456789")
    yield r, w, f
    for fd in (r, w, f):
        os.close(fd)


@pytest.mark.parametrize("what", TAKERS, ids="-".join)
@pytest.mark.parametrize("value", [1.5, "1", b"1", [1], 1j])
def test_a_number_that_is_no_integer_is_a_type_error(what, value, ends):
    with pytest.raises(TypeError):
        TAKERS[what](*ends, value)


@pytest.mark.parametrize("what", TAKERS, ids="-".join)
@pytest.mark.parametrize("value", [-1, -(2**31) - 1, -(2**63), 2**63, 2**64, 10**30])
def test_an_integer_out_of_range_is_a_value_error_that_names_argument_and_value(what, value, ends):
    if what == ("linkat", "flags") and value == -1:
        with pytest.raises(OSError):  # an int as the kernel takes it: EINVAL
            TAKERS[what](*ends, value)
        return
    with pytest.raises(ValueError, match=f"{what[1]} must be .*, not {value}"):
        TAKERS[what](*ends, value)


def test_nothing_moved_when_an_argument_was_refused(ends):
    r, w, f = ends
    os.lseek(f, 0, os.SEEK_SET)
    for what, call in TAKERS.items():
        if what[0] != "linkat":
            with pytest.raises(ValueError):
                call(r, w, f, -1)
    assert zerosys.pipe_occupancy(r) == 0
    assert os.read(f, 20) == b"0123456789"


@pytest.mark.parametrize("fd", [1.5, "1", None, b"1", object()])
def test_a_descriptor_of_the_wrong_type_is_a_type_error(fd, ends):
    _, w, _ = ends
    for call in (
        lambda: zerosys.splice(fd, w, 1),
        lambda: zerosys.splice(w, fd, 1),
        lambda: zerosys.tee(fd, w, 1),
        lambda: zerosys.vmsplice(fd, b"x"),
        lambda: zerosys.sendfile(w, fd, 0, 1),
        lambda: zerosys.copy_file_range(fd, w, 1),
        lambda: zerosys.pipe_capacity(fd),
        lambda: zerosys.set_pipe_capacity(fd, 1),
        lambda: zerosys.pipe_occupancy(fd),
        lambda: zerosys.linkat("a", "b", src_dir_fd=fd),
    ):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("fd", [-1, -100, 2**31, 2**64])
def test_a_descriptor_out_of_range_is_a_value_error(fd, ends):
    with pytest.raises(ValueError):
        zerosys.splice(fd, ends[1], 1)


def test_a_closed_file_object_is_a_value_error(ends, tmp_path):
    with open(tmp_path / "file", "rb") as file:
        pass
    with pytest.raises(ValueError, match="closed file"):
        zerosys.splice(file, ends[1], 1)


@pytest.mark.parametrize("flags", [1 << 4, 1 << 31, 2**32 - 1])
def test_an_unknown_flag_is_the_kernels_einval(flags, ends):
    r, w, f = ends
    for call in (
        lambda: zerosys.splice(f, w, 1, flags=flags),
        lambda: zerosys.tee(r, w, 1, flags),
        lambda: zerosys.vmsplice(w, b"x", flags & ~int(SpliceFlag.GIFT)),
    ):
        with pytest.raises(OSError) as refusal:
            call()
        assert refusal.value.errno == errno.EINVAL


def test_an_end_that_is_open_the_other_way_round_is_named(tmp_path):
    r, w = os.pipe()
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    with open(path, "rb") as reading, open(path, "r+b") as both:
        os.write(w, b"x")
        for call, text in [
            (lambda: zerosys.splice(r, reading, 1), r"dst .* reading only"),
            (lambda: zerosys.splice(w, both, 1), r"src .* writing only"),
            (lambda: zerosys.sendfile(reading, both, 0, 1), r"dst .* reading only"),
            (lambda: zerosys.splice(r, w, 1, offset_src=0), r"src .* no position"),
            (lambda: zerosys.vmsplice(reading, b"x"), "Bad file descriptor"),
        ]:
            with pytest.raises(OSError, match=text):
                call()
    for fd in (r, w):
        os.close(fd)
