"""sendfile, copy_file_range and linkat: whole files, far offsets, and the names they give."""

import errno
import os
import socket

import pytest
from ends import Background, no_descriptor_left, read_all

import zerosys
from zerosys._splice import AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_FOLLOW
from zerosys.flags import SpliceFlag

LIMIT = 0x7FFFF000  # the most that one read, write, splice or sendfile carries
FAR = 2**32 + 5


@pytest.fixture
def files(tmp_path):
    with no_descriptor_left():
        with open(tmp_path / "a", "w+b") as a, open(tmp_path / "b", "w+b") as b:
            a.write(b"0123456789")
            a.seek(0)
            yield a, b


@pytest.fixture
def sparse():
    """3 GiB of zeros that take no memory, on tmpfs."""
    fd = os.memfd_create("sparse")
    os.truncate(fd, 3 << 30)
    yield fd
    os.close(fd)


def whole(move):
    parts = []
    while n := move():
        parts.append(n)
    return parts


def test_sendfile_stops_at_the_kernels_limit_and_goes_on(sparse):
    with open("/dev/null", "wb") as sink:
        parts = whole(lambda: zerosys.sendfile(sink, sparse, None, 3 << 30))
    assert parts == [LIMIT, (3 << 30) - LIMIT]
    assert sum(parts) == 3221225472


def test_copy_file_range_carries_three_gibibytes_of_nothing(tmp_path, sparse):
    # Between a memfd and a disk file there may be no way (EXDEV): two memfds have one.
    sink = os.memfd_create("sink")
    try:
        assert zerosys.copy_file_range(sparse, sink, 3 << 20, 2 << 30, FAR) == 3 << 20
        assert os.fstat(sink).st_size == FAR + (3 << 20)
    finally:
        os.close(sink)


def test_sendfile_uses_and_advances_the_position_or_takes_an_offset(files):
    a, _ = files
    near, far = socket.socketpair()
    with near, far:
        assert zerosys.sendfile(near, a, None, 4) == 4
        assert zerosys.sendfile(near, a, 8, 100) == 2
        assert zerosys.sendfile(near, a, None, 100) == 6
        assert zerosys.sendfile(near, a, None, 100) == 0
        assert far.recv(100) == b"012389456789"


@pytest.mark.parametrize("call", ["sendfile", "splice", "copy_file_range"])
def test_ten_bytes_beyond_four_gibibytes_are_the_right_ten(call, files):
    a, b = files
    os.pwrite(a.fileno(), b"the right 10 bytes", FAR)
    r, w = os.pipe()
    if call == "sendfile":
        assert zerosys.sendfile(w, a, FAR, 10) == 10
    elif call == "splice":
        assert zerosys.splice(a, w, 10, offset_src=FAR) == 10
    else:
        assert zerosys.copy_file_range(a, b, 10, FAR, FAR + 1) == 10
        os.write(w, os.pread(b.fileno(), 10, FAR + 1))
    assert os.read(r, 100) == b"the right "
    for fd in (r, w):
        os.close(fd)


@pytest.mark.parametrize("call", ["sendfile", "splice", "copy_file_range"])
def test_the_last_offset_of_all_is_the_kernels_to_judge(call, files):
    a, b = files
    r, w = os.pipe()
    calls = {
        "sendfile": lambda: zerosys.sendfile(w, a, 2**63 - 1, 10),
        "splice": lambda: zerosys.splice(a, w, 10, offset_src=2**63 - 1),
        "copy_file_range": lambda: zerosys.copy_file_range(a, b, 10, offset_src=2**63 - 1),
    }
    try:
        assert calls[call]() == 0
    except OSError as refusal:
        assert refusal.errno in (errno.EINVAL, errno.EOVERFLOW, errno.EFBIG)
    for fd in (r, w):
        os.close(fd)


def test_sendfile_to_a_full_nonblocking_socket_would_block(files, sparse):
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                sent += zerosys.sendfile(near, sparse, None, 1 << 20)
        assert os.lseek(sparse, 0, os.SEEK_CUR) == sent
        near.shutdown(socket.SHUT_WR)
        assert len(read_all(far.fileno())) == sent


def test_other_threads_run_while_sendfile_waits(sparse):
    near, far = socket.socketpair()
    with near, far:
        sending = Background(zerosys.sendfile, near, sparse, 0, 8 << 20)
        got = 0
        while got < 8 << 20:
            got += len(far.recv(1 << 20))
        assert sending.result() == 8 << 20


def test_copy_file_range_copies_by_position_and_by_offset(files):
    a, b = files
    assert zerosys.copy_file_range(a, b, 4) == 4
    assert zerosys.copy_file_range(a, b, 100) == 6
    assert zerosys.copy_file_range(a, b, 100) == 0
    assert zerosys.copy_file_range(a, b, 3, offset_src=7, offset_dst=0) == 3
    assert os.pread(b.fileno(), 100, 0) == b"7893456789"


def test_copy_file_range_between_file_systems_is_the_kernels_exdev(files):
    with open("/proc/self/status", "rb") as source, pytest.raises(OSError) as refusal:
        zerosys.copy_file_range(source, files[1], 10)
    assert refusal.value.errno == errno.EXDEV


@pytest.mark.parametrize(
    "path",
    ["/proc/meminfo", "/proc/cpuinfo", "/proc/self/mountinfo", "/sys/kernel/mm/transparent_hugepage/enabled"],
)
@pytest.mark.parametrize("piece", [2, 1 << 16])
def test_pseudo_files_are_spliced_whole_or_refused(path, piece):
    """Whether the kernel can is its affair (EINVAL); what it moves must be the file."""
    with open(path, "rb", buffering=0) as source:
        r, w = os.pipe()
        reading = Background(read_all, r)
        try:
            while zerosys.splice(source, w, piece):
                pass
            whole = True
        except OSError as refusal:
            assert refusal.errno == errno.EINVAL
            whole = False
        os.close(w)
        got = reading.result()
        os.close(r)
        source.seek(0)
        if whole and "meminfo" not in path and "cpuinfo" not in path:
            assert got == source.readall()
        elif whole:  # its numbers change from one read to the next
            assert [line.split(b":")[0] for line in got.splitlines()] == [
                line.split(b":")[0] for line in source.readall().splitlines()
            ]


def test_linkat_names_a_file_that_has_no_name(tmp_path):
    fd = os.open(tmp_path, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"whole before it has a name")
    zerosys.linkat(f"/proc/self/fd/{fd}", tmp_path / "named", flags=AT_SYMLINK_FOLLOW)
    os.close(fd)
    assert (tmp_path / "named").read_bytes() == b"whole before it has a name"


def test_linkat_takes_folders_as_descriptors_and_objects(tmp_path):
    (tmp_path / "old").write_bytes(b"x")
    folder = os.open(tmp_path, os.O_RDONLY)

    class Held:
        def fileno(self):
            return folder

    zerosys.linkat("old", b"one", src_dir_fd=folder, dst_dir_fd=Held())
    zerosys.linkat(tmp_path / "old", "two", src_dir_fd=AT_FDCWD, dst_dir_fd=folder)
    os.close(folder)
    assert sorted(os.listdir(tmp_path)) == ["old", "one", "two"]


def test_linkat_gives_a_descriptor_itself_a_name(tmp_path):
    with open(tmp_path / "old", "w") as file:
        try:
            zerosys.linkat("", tmp_path / "new", src_dir_fd=file, flags=AT_EMPTY_PATH)
        except FileNotFoundError:  # the kernel's answer without CAP_DAC_READ_SEARCH
            assert os.geteuid()
        else:
            assert (tmp_path / "new").stat().st_nlink == 2


def test_linkat_says_which_names_it_could_not_join(tmp_path):
    (tmp_path / "old").touch()
    with pytest.raises(FileExistsError, match=r"old.* as .*old"):
        zerosys.linkat(tmp_path / "old", tmp_path / "old")
    with pytest.raises(FileNotFoundError, match="linkat: "):
        zerosys.linkat(tmp_path / "absent", tmp_path / "new")


@pytest.mark.parametrize("bad", ["nul\0", b"nul\0"])
def test_linkat_refuses_a_nul_byte_before_the_kernel(bad, tmp_path):
    with pytest.raises(ValueError, match="NUL"):
        zerosys.linkat(bad, tmp_path / "new")
    with pytest.raises(ValueError, match="NUL"):
        zerosys.linkat(tmp_path, bad)


@pytest.mark.parametrize("bad", [1, None, 1.5])
def test_linkat_refuses_what_is_no_path(bad, tmp_path):
    with pytest.raises(TypeError):
        zerosys.linkat(bad, tmp_path / "new")


def test_gift_and_more_are_names_of_bits():
    assert SpliceFlag.GIFT | SpliceFlag.MORE == 12
