"""The drop-in SharedMemory: CPython's behaviour and partners, and nothing lost with anybody's end."""

import ctypes
import errno
import gc
import multiprocessing
import os
import pickle
import secrets
import stat
import subprocess
import sys
from multiprocessing import shared_memory as theirs

import numpy as np
import pytest
from counts import nothing_left

from zerosys import names
from zerosys.region import SharedRegion
from zerosys.shared_memory import ShareableList, SharedMemory

SHM = "/dev/shm"
BOTH = pytest.mark.parametrize("kind", [theirs.SharedMemory, SharedMemory], ids=["CPython's", "ours"])


@pytest.fixture
def name():
    chosen = f"zerosys-test-{secrets.token_hex(6)}"
    yield chosen
    if os.path.lexists(f"{SHM}/{chosen}"):
        os.unlink(f"{SHM}/{chosen}")


@pytest.fixture
def made(name):
    memory = SharedMemory(name, create=True, size=100)
    yield memory
    memory.close()


def there(name):
    return os.path.lexists(f"{SHM}/{name}")


def python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )


# -- the same as CPython's --------------------------------------------------------------------


def told(use):
    """What became of *use*: its value, or the kind and number of its exception."""
    try:
        return use()
    except (OSError, ValueError, TypeError) as error:
        return type(error), getattr(error, "errno", None)


def outcomes(kind, name):
    """What *kind* answers to a row of questions, in order."""
    seen = [told(lambda: kind(name, False))]
    memory = kind(name, True, 5000)
    seen += [memory.name, memory._name, memory.size, len(memory.buf), repr(memory), memory.buf.format]
    seen += [memory.buf.readonly, bytes(memory.buf[:3]), isinstance(memory, theirs.SharedMemory)]
    seen += [told(lambda: kind(name, True, 1)), pickle.loads(pickle.dumps(memory)).size]
    seen += [os.stat(f"{SHM}/{name}").st_size]
    memory.close()
    memory.close()
    seen += [memory.buf, memory.name, memory.size, repr(memory), kind(name, size=77).size]
    memory.unlink()
    seen += [told(memory.unlink), there(name), told(lambda: kind(name))]
    return seen


def test_life_goes_as_cpython_s(name, recwarn):
    assert outcomes(SharedMemory, name) == outcomes(theirs.SharedMemory, name)


@pytest.mark.parametrize(
    "words",
    [
        {}, {"create": True}, {"create": True, "size": 0}, {"create": True, "size": -1}, {"size": -1},
        {"create": True, "size": "1"}, {"create": True, "size": None}, {"create": True, "size": 1 << 60},
        {"name": ""}, {"name": "/"}, {"name": "a/b"}, {"name": "."}, {"name": ".."}, {"name": "x" * 256},
        {"name": "", "create": True, "size": 1}, {"name": "a/b", "create": True, "size": 1},
        {"name": "x" * 256, "create": True, "size": 1}, {"name": 5}, {"name": b"bytes"},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_as_cpython_refuses_it(words):
    kind, number = told(lambda: theirs.SharedMemory(**words))
    with nothing_left(), pytest.raises(kind) as refusal:
        SharedMemory(**words)
    assert getattr(refusal.value, "errno", None) == number


def test_a_null_character_is_refused_by_every_python(made):
    for use in (lambda: SharedMemory("a\0b"), lambda: SharedMemory("a\0b", True, 1)):
        with nothing_left(), pytest.raises(ValueError, match="null"):
            use()


def test_a_part_of_a_byte_is_refused_and_leaves_no_name(name):
    with nothing_left(), pytest.raises(TypeError):
        SharedMemory(name, create=True, size=1.5)
    assert not there(name)


@BOTH
def test_close_under_a_view_is_a_buffer_error(kind, name):
    memory = kind(name, create=True, size=10)
    view = memory.buf[:4]
    with pytest.raises(BufferError):
        memory.close()
    view[0] = 1
    view.release()
    array = np.frombuffer(memory.buf or memoryview(memory._mmap), "u1")
    if memory.buf:  # ours stays usable, and refuses again
        with pytest.raises(BufferError):
            memory.close()
        assert array[0] == memory.buf[0] == 1
    del array
    gc.collect()
    memory.close()
    memory.unlink()


def test_an_array_over_buf_lets_close_succeed_and_reads_zeros_then(made):
    # With CPython's, touching this array afterwards is SIGSEGV.
    array = np.ndarray(100, "u1", buffer=made.buf)
    array[:] = 7
    made.close()
    assert not array.any()
    array[:] = 1  # nobody's memory any more, but memory
    del made
    gc.collect()
    assert array.all()


def test_dropped_without_close_the_memory_stays_for_its_views(name):
    with nothing_left():
        memory = SharedMemory(name, create=True, size=100)
        memory.buf[5] = 5
        view, array = memory.buf[5:], np.ndarray(100, "u1", buffer=memory.buf)
        del memory
        gc.collect()
        assert view[0] == array[5] == 5
        del view, array


def test_mode_is_not_the_umask_s(name):
    before = os.umask(0o777)
    try:
        memory = SharedMemory(name, create=True, size=1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(f"{SHM}/{name}").st_mode) & 0o777 == 0o600
    memory.close()


def test_unlink_spares_other_memory_of_that_name(made, name):
    os.unlink(f"{SHM}/{name}")
    with SharedRegion.create(1, name=name):
        with pytest.raises(FileNotFoundError):
            made.unlink()
        assert there(name)


def test_an_empty_file_is_a_value_error_and_stays(name):
    os.close(os.open(f"{SHM}/{name}", os.O_CREAT | os.O_RDWR))
    with nothing_left(), pytest.raises(ValueError, match="empty file"):
        SharedMemory(name)
    assert there(name)


def test_every_page_is_there_at_once(made, name):
    about = os.stat(f"{SHM}/{name}")
    assert (about.st_size, about.st_blocks * 512) == (100, os.sysconf("SC_PAGESIZE"))


def test_a_full_dev_shm_is_an_error_and_no_signal_and_leaves_no_name():
    done = python("""
import ctypes, errno, os, subprocess
from zerosys.shared_memory import ShareableList, SharedMemory
ctypes.CDLL(None).unshare(0x20000)
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", "/dev/shm"], check=True)
for use in (
    lambda: SharedMemory("full", create=True, size=1 << 20),
    lambda: SharedMemory(create=True, size=1 << 20),
    lambda: ShareableList(["x" * (1 << 20)]),
):
    try:
        use()
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
print(os.listdir("/dev/shm"), os.statvfs("/dev/shm").f_bfree)
""")
    assert (done.stdout, done.stderr) == ("[] 16\n", "")


# -- partners ---------------------------------------------------------------------------------


def test_cpython_s_attaches_what_ours_made(made, name):
    made.buf[3] = 9
    done = python(
        "import sys; from multiprocessing import resource_tracker, shared_memory\n"
        "m = shared_memory.SharedMemory(sys.argv[1]); resource_tracker.unregister(m._name, 'shared_memory')\n"
        "assert m.size == 100 and m.buf[3] == 9; m.buf[4] = 8; m.close()",
        name,
    )
    assert (done.returncode, done.stderr, made.buf[4]) == (0, "", 8)


def test_ours_attaches_what_cpython_s_made(name):
    memory = theirs.SharedMemory(name, create=True, size=100)
    memory.buf[3] = 9
    ours = SharedMemory(name)
    assert (ours.size, ours.buf[3]) == (100, 9)
    ours.buf[4] = 8
    ours.close()
    assert memory.buf[4] == 8 and there(name)
    memory.close()
    memory.unlink()


def test_shm_open_and_ours_share_both_ways(made, name):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.shm_open(f"/{name}".encode(), os.O_RDWR, 0)
    assert os.pwrite(fd, b"from C", 10) == 6
    os.close(fd)
    assert bytes(made.buf[10:16]) == b"from C"
    made.unlink()
    fd = libc.shm_open(f"/{name}".encode(), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.ftruncate(fd, 50)
    ours = SharedMemory(name)
    ours.buf[:2] = b"py"
    assert os.pread(fd, 2, 0) == b"py" and ours.size == 50
    ours.close()
    ours.unlink()
    assert libc.shm_unlink(f"/{name}".encode()) == -1 and ctypes.get_errno() == errno.ENOENT
    os.close(fd)


def test_a_region_and_ours_are_one_memory(name):
    with SharedRegion.create("1MiB", name=name, pages="base", node=0) as region:
        ours = SharedMemory(name)
        ours.buf[0] = 3
        assert memoryview(region)[0] == 3
        ours.close()
        ours.unlink()
        assert not there(name)


def add(memory, items):
    memory.buf[0] += 1
    items[0] = "other"
    memory.close()
    items.shm.close()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_it_travels_by_name_as_an_argument(method, made):
    items = ShareableList(["some text", 2.5, None])
    child = multiprocessing.get_context(method).Process(target=add, args=(made, items))
    child.start()
    child.join(60)
    assert (child.exitcode, made.buf[0], items[0]) == (0, 1, "other")
    assert there(made.name) and there(items.shm.name)
    items.shm.close()
    items.shm.unlink()


def test_a_list_is_cpython_s_list(name):
    items = ShareableList(["a", b"b", 1, 2.5, True, None], name=name)
    other = pickle.loads(pickle.dumps(items))
    assert isinstance(other, theirs.ShareableList) and isinstance(other.shm, SharedMemory)
    other[0] = "z"
    assert list(items) == list(other) == ["z", b"b", 1, 2.5, True, None]
    assert (items.index(2.5), items.count(1), len(items)) == (3, 2, 6)  # True counts as 1
    assert repr(items) == f"ShareableList(['z', b'b', 1, 2.5, True, None], name={name!r})"
    for one in (items, other):
        one.shm.close()
    items.shm.unlink()


# -- nothing lost with anybody's end ------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "raise KeyError", "os.kill(os.getpid(), 9)", "os._exit(3)", "m.close()"])
@pytest.mark.parametrize("track", [True, False])
def test_an_attacher_takes_nothing_down_however_it_ends(made, name, end, track):
    code = f"import os; from zerosys.shared_memory import SharedMemory as S; m = S({name!r}, track={track})"
    done = python(f"{code}\nm.buf[0] = 3\n{end}")
    assert "leak" not in done.stderr and "tracker" not in done.stderr
    assert there(name) and made.buf[0] == 3
    third = SharedMemory(name)
    assert third.buf[0] == 3
    third.close()


@pytest.mark.parametrize("end", ["", "raise KeyError", "os.kill(os.getpid(), 9)"])
def test_a_creator_that_ends_leaves_its_name_and_a_collector_finds_it(name, end):
    code = f"import os\nfrom zerosys.shared_memory import SharedMemory\nm = SharedMemory({name!r}, True, 9)"
    done = python(f"{code}\nm.buf[0] = 3\n{end}")
    assert "leak" not in done.stderr
    other = SharedMemory(name)
    assert other.buf[0] == 3 and not names.orphaned(f"{SHM}/{name}")
    other.close()
    assert names.collect(f"{SHM}/{name}") and not there(name)


def test_no_tracker_is_started_and_nothing_is_printed(name):
    done = python(f"""
from multiprocessing import resource_tracker
from zerosys.shared_memory import ShareableList, SharedMemory
memory = SharedMemory({name!r}, True, 9)
again = SharedMemory({name!r})
items = ShareableList([1, 2])
items.shm.unlink()
memory.unlink()
view = again.buf[:1]
print(resource_tracker._resource_tracker._pid, resource_tracker._resource_tracker._fd)
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "None None\n", "")


def test_ten_thousand_lives_leave_nothing(name):
    used = set()
    SharedMemory(create=True, size=1).unlink()
    with nothing_left():
        for turn in range(10_000):
            memory = SharedMemory(name if turn % 2 else None, create=True, size=turn % 9000 + 1)
            used.add(memory.name)
            if turn % 3 == 0:
                SharedMemory(memory.name).close()
            memory.unlink()
            if turn % 5:
                memory.close()
    assert used.isdisjoint(os.listdir(SHM))
