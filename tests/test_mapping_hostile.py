"""Mapping under code that means no good: threads, subclasses, limits, and calls made out of turn."""

import mmap
import os
import subprocess
import sys
import textwrap

import pytest

from zerosys import _mmap
from zerosys._memfd import memfd_create
from zerosys._mmap import Lease, Mapping

PAGE = mmap.PAGESIZE


def survives(code: str) -> str:
    """What a child says that runs *code*, which would die of a signal if memory were unsafe."""
    prelude = """
import mmap, os, resource, threading
from zerosys import _mmap
from zerosys._mmap import Mapping
"""
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_subclass_that_counts_other_things_lends_no_byte_more():
    class Items(Mapping):
        def __len__(self):
            return 1 << 40

    with Items(None, 100) as m, memoryview(m) as view:
        assert len(view) == 100


def test_a_lease_made_by_hand_has_no_memory_to_give():
    for call in (Lease().check_gift, Lease().gifted):
        with pytest.raises(ValueError, match="taking a view"):
            call(PAGE, PAGE)


def test_a_lease_touches_no_memory_but_its_own():
    with Mapping(None, 2 * PAGE, flags=_mmap.MAP_PRIVATE) as m, memoryview(m) as view:
        view[:] = b"x" * len(view)
        for address, length in [
            (m.address - PAGE, PAGE), (m.address + PAGE, 2 * PAGE), (m.address + 2 * PAGE, PAGE), (0, PAGE),
            (m.address, (1 << 63) - PAGE), ((1 << 63) - PAGE, PAGE),
        ]:  # fmt: skip
            for call in (view.obj.check_gift, view.obj.gifted):
                with pytest.raises(ValueError, match="no part"):
                    call(address, length)
        assert bytes(view) == b"x" * len(view)


def test_a_view_taken_while_resize_asks_for_the_descriptor_is_respected():
    fd = memfd_create()
    os.ftruncate(fd, PAGE)

    class Sly:
        def fileno(self):
            self.view = memoryview(m)
            return fd

    sly = Sly()
    m = Mapping(fd, PAGE)
    with pytest.raises(BufferError, match="resize"):
        m.resize(2 * PAGE, sly)
    sly.view[0] = 7
    assert os.pread(fd, 1, 0) == b"\7"
    sly.view.release()
    m.close()
    os.close(fd)


LOOKING = """
ended = False
def look():
    while not ended:
        try:
            with memoryview(m) as view:
                view[len(view) - 1]
                if not view.readonly:
                    view[0] = 1
        except (BufferError, ValueError):
            pass
threads = [threading.Thread(target=look) for _ in range(2)]

def insist(change, *arguments):
    while True:
        try:
            return change(*arguments)
        except BufferError:
            pass
"""


def test_threads_that_look_while_another_resizes_never_see_a_length_that_is_not_there():
    assert (
        survives(
            LOOKING
            + """
fd = os.memfd_create("grows")
os.ftruncate(fd, 4096)
m = Mapping(fd, 4096, flags=_mmap.MAP_SHARED | _mmap.MAP_POPULATE)
for thread in threads: thread.start()
for _ in range(8):
    insist(m.resize, 256 << 20, fd)
    insist(m.resize, 4096, fd)
ended = True
for thread in threads: thread.join()
print(m.size, m.views)
"""
        )
        == "4096 0"
    )


def test_threads_that_look_while_another_protects_get_no_view_that_loses_its_right():
    assert (
        survives(
            LOOKING
            + """
m = Mapping(None, 256 << 20)
m.populate()
for thread in threads: thread.start()
for _ in range(20):
    insist(m.protect, mmap.PROT_READ)
    insist(m.protect, mmap.PROT_READ | mmap.PROT_WRITE)
ended = True
for thread in threads: thread.join()
print(m.protection, m.views)
"""
        )
        == "3 0"
    )


def test_close_works_where_private_memory_is_limited_and_leaves_zeros():
    assert (
        survives("""
        import numpy
        m = Mapping(None, 64 << 20)
        array = numpy.ndarray(64 << 20, "u1", buffer=m)
        array[:] = 7
        resource.setrlimit(resource.RLIMIT_DATA, (32 << 20, -1))
        m.close()
        print(m.closed, array[0], array[-1])
        array[0] = 1
    """)
        == "True 0 0"
    )


@pytest.mark.parametrize("end", ["close", "drop"])
def test_other_threads_run_while_much_memory_is_given_back(end):
    code = """
import time
m = Mapping(None, 768 << 20)
m.populate()
ended, seen = False, []
def look():
    while not ended:
        seen.append(time.monotonic())
thread = threading.Thread(target=look)
thread.start()
while not seen: pass
begin = time.monotonic()
END
over = time.monotonic()
ended = True
thread.join()
quarter = (over - begin) / 4
print(any(begin + quarter < at < over - quarter for at in seen))
"""
    assert survives(code.replace("END", {"close": "m.close()", "drop": "del m"}[end])) == "True"
