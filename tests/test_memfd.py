"""memfd_create and seals: nameless memory, sealed, never executable unless asked."""

import errno
import os

import pytest
from counts import nothing_left
from seccomp import Refuse, refused

from zerosys import _memfd as m


def test_a_memfd_is_empty_closed_on_exec_and_not_executable():
    fd = m.memfd_create("probe")
    try:
        assert os.fstat(fd).st_size == 0
        assert not os.get_inheritable(fd)
        assert not os.fstat(fd).st_mode & 0o111
        assert os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:probe")
    finally:
        os.close(fd)


def test_exec_is_had_when_asked_for():
    fd = m.memfd_create("probe", m.MFD_CLOEXEC | m.MFD_EXEC)
    assert os.fstat(fd).st_mode & 0o111
    os.close(fd)


@pytest.mark.parametrize("name", ["", "x" * 249, "x" * 250, "é" * 200, "a" * 248 + "é"])
def test_long_names_are_cut_between_characters(name):
    fd = m.memfd_create(name)
    shown = os.readlink(f"/proc/self/fd/{fd}").removeprefix("/memfd:").removesuffix(" (deleted)")
    os.close(fd)
    assert name.startswith(shown) and len(name.encode()) - len(shown.encode()) <= max(
        0, len(name.encode()) - 248
    )


def test_a_name_with_nul_is_refused():
    with pytest.raises(ValueError, match="NUL"):
        m.memfd_create("a\0b")


def test_seals_add_up_and_hold():
    fd = m.memfd_create()
    os.ftruncate(fd, 4096)
    m.add_seals(fd, m.F_SEAL_SHRINK)
    m.add_seals(fd, m.F_SEAL_GROW)
    assert m.get_seals(fd) & 15 == m.F_SEAL_SHRINK | m.F_SEAL_GROW
    for size in (0, 8192):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    m.add_seals(fd, m.F_SEAL_SEAL)
    with pytest.raises(PermissionError, match="F_SEAL_SEAL"):
        m.add_seals(fd, m.F_SEAL_WRITE)
    os.close(fd)


def test_a_file_without_seals_says_so():
    # Not a file below tmp_path: where that is a tmpfs, files there have seals.
    with open("/proc/self/status", "rb") as file:
        with pytest.raises(OSError) as refusal:
            m.get_seals(file)
        assert refusal.value.errno == errno.EINVAL


@pytest.mark.parametrize("page", [3, (2 << 20) + 1])
def test_a_huge_page_is_a_power_of_two(page):
    with pytest.raises(ValueError, match=str(page)):
        m.memfd_create("", huge_page=page)


def test_a_page_size_that_is_not_offered_is_named():
    with pytest.raises(OSError, match="32768 kB") as refusal:
        m.memfd_create("", huge_page=32 << 20)
    assert refusal.value.errno == errno.ENODEV


@pytest.mark.parametrize(
    ("flags", "error"), [(1.5, TypeError), (-1, ValueError), (2**32, ValueError), ("1", TypeError)]
)
def test_flags_are_exact(flags, error):
    with nothing_left(), pytest.raises(error):
        m.memfd_create("", flags)


def test_an_old_kernel_without_noexec_still_gives_memory():
    done = refused(
        [Refuse("memfd_create", errno.EINVAL, arg=1, bits=m.MFD_NOEXEC_SEAL)],
        "from zerosys._memfd import memfd_create; import os; print(os.fstat(memfd_create()).st_size)",
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_flags_that_no_kernel_knows_are_the_kernels_refusal():
    with pytest.raises(OSError, match="memfd_create") as refusal:
        m.memfd_create("", 1 << 24)
    assert refusal.value.errno == errno.EINVAL
