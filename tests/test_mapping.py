"""Mapping: what mmap(2) maps, lent by leases, never a signal."""

import ctypes
import errno
import gc
import mmap
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from counts import nothing_left

from zerosys import _memfd, _mmap
from zerosys._mmap import Mapping

PAGE = mmap.PAGESIZE


@pytest.fixture
def memfd():
    fd = _memfd.memfd_create("test")
    os.ftruncate(fd, 4 * PAGE)
    yield fd
    os.close(fd)


def test_two_mappings_of_a_file_are_the_same_bytes(memfd):
    with Mapping(memfd, 10_000) as a, Mapping(memfd, 4 * PAGE) as b:
        memoryview(a)[9_999] = 7
        assert memoryview(b)[9_999] == 7
        assert (a.size, a.mapped_size, len(a), a.page_size) == (10_000, 3 * PAGE, 10_000, PAGE)
        assert a.address % PAGE == 0


def test_offset_maps_a_later_part(memfd):
    os.pwrite(memfd, b"later", 2 * PAGE)
    with Mapping(memfd, PAGE, offset=2 * PAGE) as m:
        assert bytes(memoryview(m)[:5]) == b"later"


def test_a_private_mapping_keeps_its_writes(memfd):
    with Mapping(memfd, PAGE, flags=_mmap.MAP_PRIVATE) as m:
        memoryview(m)[0] = 9
        assert os.pread(memfd, 1, 0) == b"\0"


def test_the_descriptor_is_borrowed():
    fd = _memfd.memfd_create()
    os.ftruncate(fd, PAGE)
    m = Mapping(fd, PAGE)
    os.close(fd)
    memoryview(m)[0] = 1
    m.close()


def test_an_object_with_fileno_is_a_descriptor(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with open(path, "rb") as file, Mapping(file, 7, protection=_mmap.PROT_READ) as m:
        assert bytes(m) == b"content"


def test_mirror_shows_the_same_pages_twice_in_a_row(memfd):
    with Mapping(memfd, 2 * PAGE, mirror=True) as m:
        view = memoryview(m)
        assert len(view) == m.mapped_size == 4 * PAGE
        assert (m.size, m.mirror) == (2 * PAGE, True)
        view[2 * PAGE - 2 : 2 * PAGE + 2] = b"seam"
        assert bytes(view[:2]) == b"am" and bytes(view[-2:]) == b"se"
        view.release()


@pytest.mark.parametrize("align", [PAGE, 16 << 10, 64 << 10, 2 << 20, 1 << 30])
def test_align_divides_address_and_mapped_size(align):
    fd = _memfd.memfd_create()
    os.ftruncate(fd, align)
    with Mapping(fd, PAGE, align=align) as m:
        assert m.address % align == 0 and m.mapped_size == align and m.size == PAGE
    os.close(fd)


BAD = [
    (lambda fd: Mapping(fd, 0), ValueError, "size"),
    (lambda fd: Mapping(fd, -1), ValueError, "-1"),
    (lambda fd: Mapping(fd, 1.5), TypeError, "float"),
    (lambda fd: Mapping(fd, 2**63), ValueError, "9223372036854775808"),
    (lambda fd: Mapping(fd, 5 * PAGE), ValueError, "ftruncate"),
    (lambda fd: Mapping(fd, PAGE, offset=1), ValueError, "multiple"),
    (lambda fd: Mapping(fd, PAGE, offset=4 * PAGE), ValueError, "ftruncate"),
    (lambda fd: Mapping(fd, PAGE, flags=_mmap.MAP_SHARED | _mmap.MAP_FIXED), ValueError, "FIXED"),
    (lambda fd: Mapping(fd, PAGE, flags=0), ValueError, "SHARED or PRIVATE"),
    (lambda fd: Mapping(fd, PAGE, flags=_mmap.MAP_SHARED | _mmap.MAP_ANONYMOUS), ValueError, "None"),
    (lambda fd: Mapping(fd, PAGE + 1, mirror=True), ValueError, "mirror"),
    (lambda fd: Mapping(None, PAGE, mirror=True), ValueError, "mirror"),
    (lambda fd: Mapping(fd, PAGE, align=3), ValueError, "power of two"),
    (lambda fd: Mapping(fd, PAGE, align=2 << 20), ValueError, "ftruncate"),
    (lambda fd: Mapping("name", PAGE), TypeError, "fileno"),
    (lambda fd: Mapping(-1, PAGE), ValueError, "negative"),
    (lambda fd: Mapping(1 << 20, PAGE), OSError, "Bad file descriptor"),
    (lambda fd: Mapping(None, 1 << 60), OSError, "mmap"),
    (lambda fd: Mapping(None, PAGE, protection=1 << 40), ValueError, "protection"),
]


@pytest.mark.parametrize(("make", "error", "text"), BAD)
def test_bad_input_is_named_and_leaves_nothing(memfd, make, error, text):
    with nothing_left(), pytest.raises(error, match=text):
        make(memfd)


def test_an_empty_pool_of_huge_pages_is_named_and_leaves_nothing():
    page = 1 << 30  # nobody has reserved that many gigabytes
    with nothing_left(), pytest.raises(OSError, match="pool of 1048576 kB huge pages"):
        Mapping(None, 1000 * page, flags=_mmap.MAP_PRIVATE | _mmap.MAP_HUGETLB | 30 << _mmap.MAP_HUGE_SHIFT)


# -- leases ---------------------------------------------------------------------------------


def frombuffer(m):
    return np.frombuffer(m, "u1")


def from_buffer(m):
    return (ctypes.c_char * 8).from_buffer(m)


def torch_frombuffer(m):
    # torch keeps view.obj and nothing else; so does this, through the same C calls.
    return memoryview(m).obj


@pytest.mark.parametrize("borrow", [memoryview, frombuffer, from_buffer, torch_frombuffer])
def test_close_under_a_view_is_refused_and_changes_nothing(memfd, borrow):
    m = Mapping(memfd, PAGE)
    memoryview(m)[:4] = b"keep"
    view = borrow(m)
    assert m.views == 1
    with pytest.raises(BufferError, match="1 live view"):
        m.close()
    assert not m.closed and bytes(m)[:4] == b"keep"
    del view
    gc.collect()
    assert m.views == 0
    m.close()
    assert m.closed


def test_closing_twice_is_fine_and_use_afterwards_is_an_error(memfd):
    m = Mapping(memfd, PAGE)
    m.close()
    m.close()
    uses = [
        lambda: memoryview(m), lambda: m.address, lambda: m.populate(), lambda: m.advise(0), m.lock, m.unlock,
        m.sync, m.resident, lambda: m.protect(0), lambda: m.resize(PAGE, memfd), lambda: m.__enter__(),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(ValueError, match="closed"):
            use()
    assert m.size == PAGE and "closed" in repr(m)


def test_an_array_that_holds_only_the_object_reads_zeros_after_close(memfd):
    m = Mapping(memfd, PAGE)
    array = np.ndarray(PAGE, "u1", buffer=m)
    array[:] = 5
    m.close()
    assert not array.any()
    array[0] = 1  # and may be written, to no effect
    assert os.pread(memfd, 1, 0) == b"\5"


def test_leaving_a_with_under_views_masks_nothing_and_the_last_view_frees(memfd):
    before = Path("/proc/self/maps").read_text().count("memfd:test")
    with pytest.raises(KeyError, match="mine"), Mapping(memfd, PAGE) as m:
        view = memoryview(m)
        other = frombuffer(m)
        raise KeyError("mine")
    assert m.closed
    with pytest.raises(ValueError, match="closed"):
        memoryview(m)
    view[0] = 3
    assert other[0] == 3
    view.release()
    assert Path("/proc/self/maps").read_text().count("memfd:test") == before + 1
    del other
    assert Path("/proc/self/maps").read_text().count("memfd:test") == before


def test_a_view_keeps_a_dropped_mapping_alive(memfd):
    view = memoryview(Mapping(memfd, PAGE))
    gc.collect()
    view[0] = 4
    assert os.pread(memfd, 1, 0) == b"\4"


def test_a_cycle_through_a_view_is_collected():
    class Kept(Mapping):
        pass

    with nothing_left():
        m = Kept(None, PAGE, flags=_mmap.MAP_SHARED)
        m.view = memoryview(m)
        del m


def test_read_only_memory_lends_no_writable_view(memfd):
    with Mapping(memfd, PAGE, protection=_mmap.PROT_READ) as m:
        assert memoryview(m).readonly
        with pytest.raises(TypeError):
            memoryview(m)[0] = 1
        with pytest.raises((BufferError, TypeError), match=r"read-only|not writable"):
            (ctypes.c_char * 8).from_buffer(m)
        with pytest.raises(ValueError, match="write=False"):
            m.populate()


def test_protect_is_refused_under_views_that_would_lose_a_right(memfd):
    with Mapping(memfd, PAGE) as m:
        with memoryview(m), pytest.raises(BufferError, match="protect"):
            m.protect(_mmap.PROT_READ)
        m.protect(_mmap.PROT_READ)
        assert m.protection == _mmap.PROT_READ
        with memoryview(m):
            m.protect(_mmap.PROT_READ | _mmap.PROT_WRITE)  # more rights hurt nobody
        m.protect(_mmap.PROT_NONE)
        with pytest.raises(BufferError, match="cannot be read"):
            memoryview(m)


def test_ten_thousand_cycles_leave_nothing(memfd):
    with nothing_left():
        for _ in range(10_000):
            with Mapping(memfd, PAGE) as m:
                memoryview(m)[0] = 1


def test_two_threads_share_a_mapping_and_close_loses_to_work(memfd):
    m = Mapping(None, 256 << 20, flags=_mmap.MAP_PRIVATE)
    refused, started = [], threading.Event()

    def work():
        started.set()
        m.populate()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    while thread.is_alive():
        if m.views:
            try:
                m.close()
            except BufferError as error:
                refused.append(error)
                break
    thread.join()
    assert refused and m.resident() == 256 << 20
    m.close()


# -- the calls on it ------------------------------------------------------------------------


def test_populate_makes_every_page_exist_and_keeps_contents(memfd):
    os.pwrite(memfd, b"kept", PAGE)
    with Mapping(memfd, 4 * PAGE) as m:
        assert m.resident() == PAGE
        assert m.populate() == 4 * PAGE
        assert m.resident() == 4 * PAGE
        assert bytes(memoryview(m)[PAGE : PAGE + 4]) == b"kept"


@pytest.mark.parametrize("threads", [1, 2, 5, 1000])
def test_populate_with_any_number_of_threads(threads):
    with nothing_left(), Mapping(None, 96 << 20) as m:
        assert m.populate(threads=threads, cpus=[0] if threads == 2 else None) == 96 << 20
        assert m.resident() == 96 << 20


def test_populate_a_part():
    with Mapping(None, 8 * PAGE) as m:
        assert m.populate(offset=2 * PAGE, length=3 * PAGE - 1) == 3 * PAGE
        assert m.resident() == 3 * PAGE
        assert m.resident(offset=2 * PAGE, length=PAGE) == PAGE


FULL = """
import ctypes, errno, os, subprocess, sys
os.unshare(os.CLONE_NEWNS) if hasattr(os, "unshare") else ctypes.CDLL(None).unshare(0x20000)
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", "/dev/shm"], check=True)
from zerosys._mmap import Mapping
fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
os.ftruncate(fd, 1 << 20)
m = Mapping(fd, 1 << 20)
try:
    m.populate(threads={threads}, write={write})
except OSError as error:
    print(errno.errorcode[error.errno], error.populated % 4096, m.views)
m.close()
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("write", [True, False])
def test_a_full_file_system_is_an_error_and_no_signal(threads, write):
    done = subprocess.run(
        [sys.executable, "-c", FULL.format(threads=threads, write=write)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "EFAULT 0 0\n", "")


def test_advice_the_kernel_does_not_know_is_its_refusal(memfd):
    with Mapping(memfd, PAGE) as m:
        m.advise(_mmap.MADV_RANDOM)
        with pytest.raises(OSError, match="madvise") as refusal:
            m.advise(999)
        assert refusal.value.errno == errno.EINVAL
        with pytest.raises(TypeError):
            m.advise(1.5)


def test_offsets_and_lengths_are_held_against_the_mapping(memfd):
    with Mapping(memfd, 2 * PAGE) as m:
        for offset, length in [
            (1, None),
            (3 * PAGE, None),
            (0, 2 * PAGE + 1),
            (PAGE, 2 * PAGE),
            (-PAGE, None),
        ]:
            for call in (m.lock, m.sync, m.resident, m.populate):
                with pytest.raises(ValueError, match="must be"):
                    call(offset=offset, length=length)


def test_sync_writes_a_file_back(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(PAGE))
    with open(path, "r+b") as file, Mapping(file, PAGE) as m:
        memoryview(m)[:4] = b"disk"
        m.sync()
        m.sync(_mmap.MS_ASYNC)
        assert path.read_bytes()[:4] == b"disk"
        with pytest.raises(OSError, match="msync"):
            m.sync(_mmap.MS_ASYNC | _mmap.MS_SYNC)


def test_lock_is_all_or_none_and_counted_by_the_kernel(memfd):
    def locked():
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmLck:")[1].split()[0]) << 10

    before = locked()
    with Mapping(memfd, 2 * PAGE) as m:
        m.lock()
        assert locked() == before + 2 * PAGE
        m.unlock(offset=PAGE)
        assert locked() == before + PAGE
        m.unlock()
        m.lock_on_fault()
        assert locked() == before + 2 * PAGE
    assert locked() == before


# -- resize ---------------------------------------------------------------------------------


def test_resize_moves_file_and_mapping_and_keeps_bytes(memfd):
    with Mapping(memfd, 2 * PAGE) as m:
        memoryview(m)[:4] = b"here"
        stale = np.ndarray(2 * PAGE, "u1", buffer=m)
        m.resize(100 * PAGE + 1, memfd)
        assert (m.size, m.mapped_size, os.fstat(memfd).st_size) == (
            100 * PAGE + 1,
            101 * PAGE,
            100 * PAGE + 1,
        )
        assert bytes(memoryview(m)[:4]) == b"here"
        m.populate()
        m.resize(1, memfd)
        assert os.fstat(memfd).st_size == 1 and bytes(m) == b"h"
        assert not stale.any()  # an array without a lease reads zeros, no signal


def test_growing_and_shrinking_again_and_again_keeps_few_addresses(memfd):
    lines = Path("/proc/self/maps").read_text().count("\n")
    with Mapping(memfd, PAGE) as m, Mapping(None, PAGE, flags=_mmap.MAP_PRIVATE) as private:
        for n in range(1, 500):
            m.resize(n * PAGE, memfd)
            private.resize(n * PAGE)
            with memoryview(m) as view, memoryview(private) as other:
                view[-1], other[-1] = n % 256, n % 256
                assert view[0] in (0, 1) and other[0] in (0, 1)
        for n in range(499, 0, -7):
            m.resize(n * PAGE, memfd)
            private.resize(n * PAGE)
            assert memoryview(m)[-1] == memoryview(private)[-1] == n % 256
        assert m.mapped_size == private.mapped_size == n * PAGE
        assert Path("/proc/self/maps").read_text().count("\n") - lines < 60


def test_resize_of_private_anonymous_memory_keeps_bytes():
    with Mapping(None, 2 * PAGE, flags=_mmap.MAP_PRIVATE) as m:
        memoryview(m)[:4] = b"here"
        m.resize(50 * PAGE)
        assert bytes(memoryview(m)[:4]) == b"here" and len(m) == 50 * PAGE
        m.populate()
        m.resize(PAGE)
        assert bytes(memoryview(m)[:4]) == b"here" and m.mapped_size == PAGE


def test_resize_is_refused_where_it_would_hurt(memfd):
    other = _memfd.memfd_create()
    os.ftruncate(other, PAGE)
    sealed = _memfd.memfd_create()
    os.ftruncate(sealed, PAGE)
    _memfd.add_seals(sealed, _memfd.F_SEAL_SHRINK | _memfd.F_SEAL_GROW)
    with nothing_left(), Mapping(memfd, PAGE) as m, Mapping(sealed, PAGE) as s:
        with memoryview(m), pytest.raises(BufferError, match="resize"):
            m.resize(2 * PAGE, memfd)
        with pytest.raises(ValueError, match="not the file"):
            m.resize(2 * PAGE, other)
        with pytest.raises(ValueError, match="fd must be"):
            m.resize(2 * PAGE)
        with pytest.raises(ValueError, match="size"):
            m.resize(0, memfd)
        with pytest.raises(PermissionError, match="sealed"):
            s.resize(2 * PAGE, sealed)
        with Mapping(memfd, PAGE, mirror=True) as mirror, pytest.raises(ValueError, match="mirror"):
            mirror.resize(2 * PAGE, memfd)
        assert len(m) == len(s) == PAGE
    os.close(other)
    os.close(sealed)


def test_a_mapping_does_not_pickle():
    import pickle

    with Mapping(None, PAGE) as m, pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(m)
