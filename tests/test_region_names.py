"""Regions with names: whole or absent, attached by anybody, removed by their own only, orphans found."""

import errno
import fcntl
import mmap
import os
import secrets
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from counts import nothing_left
from memory import PAGE
from seccomp import Refuse, refused

from zerosys import names
from zerosys.errors import NotReady, Unsupported
from zerosys.region import SharedRegion

SHM = "/dev/shm"


@pytest.fixture
def name():
    chosen = f"zerosys-test-{secrets.token_hex(6)}"
    yield chosen
    if os.path.lexists(f"{SHM}/{chosen}"):
        os.unlink(f"{SHM}/{chosen}")


def there(name):
    return os.path.lexists(f"{SHM}/{name}")


def test_a_named_region_is_complete_when_its_name_appears(name):
    with nothing_left(), SharedRegion.create(3 * PAGE, name=name, node=0) as region:
        about = os.stat(f"{SHM}/{name}")
        assert about.st_size == 3 * PAGE and about.st_blocks * 512 == 3 * PAGE
        assert (region.name, region.sealed, region.backing.source) == (name, False, "tmpfs")
        assert region.verify().ok
        with SharedRegion.attach(name) as other:
            memoryview(region)[5] = 7
            assert memoryview(other)[5] == 7 and other.name == name
        region.unlink()
        assert not there(name)
        memoryview(region)[6] = 1  # whoever has it keeps it


def test_a_second_create_is_refused_and_the_first_is_whole(name):
    with SharedRegion.create(PAGE, name=name) as region:
        memoryview(region)[0] = 1
        with nothing_left(), pytest.raises(FileExistsError, match="attach to it"):
            SharedRegion.create(PAGE, name=name)
        assert there(name) and memoryview(region)[0] == 1


def test_of_many_who_create_at_once_one_wins(name):
    outcome = []

    def work():
        try:
            outcome.append(SharedRegion.create(PAGE, name=name))
        except FileExistsError:
            outcome.append(None)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(made is not None for made in outcome) == 1 and len(outcome) == 8


@pytest.mark.parametrize("bad", ["", "/", "a/b", ".", "..", "a\0b", "x" * 256])
def test_what_is_no_name_is_refused(bad):
    for use in (lambda: SharedRegion.create(PAGE, name=bad), lambda: SharedRegion.attach(bad)):
        with nothing_left(), pytest.raises(ValueError, match="name must be"):
            use()


def test_one_leading_slash_is_posix_writing(name):
    with SharedRegion.create(PAGE, name="/" + name), SharedRegion.attach(name) as other:
        assert other.name == name


def test_mode_is_not_the_umask_s(name):
    before = os.umask(0o777)
    try:
        with SharedRegion.create(PAGE, name=name, mode=0o664):
            assert stat.S_IMODE(os.stat(f"{SHM}/{name}").st_mode) & 0o777 == 0o664
    finally:
        os.umask(before)


def test_a_name_that_is_not_there_is_not_found(name):
    with nothing_left(), pytest.raises(FileNotFoundError, match="no shared memory"):
        SharedRegion.attach(name)
    with nothing_left(), pytest.raises(FileNotFoundError):
        SharedRegion.attach(name, timeout=0.05)


def test_attaching_waits_for_a_name_that_comes(name):
    made = []
    thread = threading.Timer(0.1, lambda: made.append(SharedRegion.create(PAGE, name=name)))
    thread.start()
    with SharedRegion.attach(name, timeout=30) as other:
        assert other.size == PAGE
    thread.join()


def test_a_foreign_segment_without_size_is_not_ready_and_left_alone(name):
    fd = os.open(f"{SHM}/{name}", os.O_CREAT | os.O_RDWR)
    with nothing_left(), pytest.raises(NotReady, match="no size"):
        SharedRegion.attach(name, timeout=0.05)
    assert there(name)
    thread = threading.Timer(0.1, os.ftruncate, (fd, PAGE))
    thread.start()
    with SharedRegion.attach(name, timeout=30) as region:
        assert region.size == PAGE
    thread.join()
    os.close(fd)


def test_any_posix_segment_can_be_attached(name):
    from multiprocessing.shared_memory import SharedMemory

    theirs = SharedMemory(name, create=True, size=100)
    theirs.buf[3] = 9
    with SharedRegion.attach(name) as region:
        assert memoryview(region)[3] == 9
        memoryview(region)[4] = 8
        assert theirs.buf[4] == 8
    theirs.close()
    theirs.unlink()


@pytest.mark.parametrize("end", ["", "raise KeyError", "os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_an_attacher_takes_nothing_down_however_it_ends(name, end):
    with SharedRegion.create(PAGE, name=name) as region:
        code = f"import os\nfrom zerosys.region import SharedRegion\nr = SharedRegion.attach({name!r})\n{end}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert "leak" not in done.stderr
        assert there(name) and not names.orphaned(f"{SHM}/{name}")
        memoryview(region)[0] = 3
        with SharedRegion.attach(name) as third:
            assert memoryview(third)[0] == 3


def test_a_removed_file_takes_nothing_from_those_who_have_it(name):
    with SharedRegion.create(PAGE, name=name) as region:
        os.unlink(f"{SHM}/{name}")
        memoryview(region)[0] = 4
        with SharedRegion.attach(region.fileno(), unsealed=True) as other:
            assert memoryview(other)[0] == 4
        region.unlink()  # quietly
    region.unlink()


def test_unlink_spares_a_name_that_means_another_object_by_now(name):
    first = SharedRegion.create(PAGE, name=name)
    os.unlink(f"{SHM}/{name}")
    with SharedRegion.create(2 * PAGE, name=name):
        first.unlink()
        assert there(name)
    first.close()


def test_nameless_memory_has_no_name_to_remove():
    with SharedRegion.create(PAGE) as region:
        assert region.name is None
        with pytest.raises(ValueError, match="no name"):
            region.unlink()


def test_an_attached_reader_cannot_write(name):
    with SharedRegion.create(PAGE, name=name), SharedRegion.attach(name, read_only=True) as reader:
        with pytest.raises(TypeError):
            memoryview(reader)[0] = 1
        with pytest.raises(PermissionError):
            reader.protect(3)


def test_strange_files_are_refused_and_left(name):
    path = f"{SHM}/{name}"
    os.mkfifo(path)
    with nothing_left(), pytest.raises((ValueError, OSError)):
        SharedRegion.attach(name)
    os.unlink(path)
    os.symlink("/etc/passwd", path)
    with nothing_left(), pytest.raises(OSError) as no:
        SharedRegion.attach(name)
    assert no.value.errno == errno.ELOOP and there(name)


# -- orphans --------------------------------------------------------------------------------


def test_the_lock_tells_orphans_from_the_living_and_a_mapping_alone_keeps_it(name):
    path = f"{SHM}/{name}"
    region = SharedRegion.create(PAGE, name=name)
    assert not names.orphaned(path)
    view = memoryview(region)
    with region:
        pass  # the descriptor is closed; the view keeps the mapping
    assert not names.orphaned(path) and not names.collect(path)
    view.release()
    assert names.orphaned(path)
    with SharedRegion.attach(name):
        assert not names.orphaned(path)
    assert names.collect(path) and not there(name)
    assert not names.collect(path)


def test_what_is_to_be_kept_and_what_is_not_ours_is_never_collected(name):
    path = f"{SHM}/{name}"
    SharedRegion.create(PAGE, name=name, keep=True).close()
    assert not names.orphaned(path) and not names.collect(path)
    os.unlink(path)
    with open(path, "wb") as file:
        file.truncate(PAGE)
    assert not names.collect(path) and there(name)


def test_a_creator_killed_at_any_moment_leaves_nothing_or_an_orphan(name):
    code = f"""
import os
from zerosys.region import SharedRegion
print("begin", flush=True)
region = SharedRegion.create("64MiB", name={name!r}, pages="base")
print("made", flush=True)
region.close()
"""
    path = f"{SHM}/{name}"
    for moment in range(12):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
            assert child.stdout.readline() == b"begin\n"
            try:
                child.wait(0.008 * moment)
            except subprocess.TimeoutExpired:
                pass
            child.send_signal(signal.SIGKILL)
            child.wait()
        if os.path.lexists(path):
            assert os.stat(path).st_blocks * 512 == 64 << 20  # whole
            assert names.collect(path)
        assert not there(name)


def test_a_kept_lock_of_a_stranger_is_not_ready(name):
    SharedRegion.create(PAGE, name=name).close()
    fd = os.open(f"{SHM}/{name}", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with nothing_left(), pytest.raises(NotReady, match="locked"):
        SharedRegion.attach(name, timeout=0.02)
    os.close(fd)
    SharedRegion.attach(name).close()


def test_whoever_lists_orphans_never_makes_an_attach_fail(name):
    SharedRegion.create(PAGE, name=name).close()
    fd = os.open(f"{SHM}/{name}", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    thread = threading.Timer(0.02, fcntl.flock, (fd, fcntl.LOCK_UN))
    thread.start()
    SharedRegion.attach(name).close()
    thread.join()
    os.close(fd)


def test_a_collector_and_an_attacher_never_both_win(name):
    for _ in range(300):
        SharedRegion.create(PAGE, name=name).close()
        got, gone = [], []

        def attach():
            try:
                got.append(SharedRegion.attach(name))  # noqa: B023
            except (FileNotFoundError, NotReady):
                pass

        threads = [
            threading.Thread(target=attach),
            threading.Thread(target=lambda: gone.append(names.collect(f"{SHM}/{name}"))),  # noqa: B023
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not (got and gone[0]), "attached to what was removed"
        for region in got:
            region.unlink()
            region.close()
        if there(name):
            os.unlink(f"{SHM}/{name}")


# -- huge, sealed, paid ---------------------------------------------------------------------


def test_a_huge_name_needs_a_mount_and_says_the_command(name):
    if any(page == 1 << 30 for _, page in names.huge_mounts()):
        pytest.fail("this test wants a machine without a mount for pages of 1 GiB")
    with nothing_left(), pytest.raises(Unsupported, match="mount -t hugetlbfs -o pagesize=1024M"):
        SharedRegion.create(PAGE, name=name, pages="1G")


def test_thp_by_name(name):
    with SharedRegion.create("2MiB", name=name, pages="thp") as region:
        assert region.backing.huge_bytes == 2 << 20
        region.unlink()


@pytest.mark.parametrize("words", [{"populate": False}, {"populate_in": "attacher"}])
def test_a_name_is_always_populated(name, words):
    with nothing_left(), pytest.raises(ValueError, match="nameless"):
        SharedRegion.create(PAGE, name=name, **words)


@pytest.mark.parametrize("mode", [-1, 0o1600, 0o4700])
def test_a_mode_is_permissions_and_no_mark(name, mode):
    with nothing_left(), pytest.raises(ValueError, match="mode must be permissions"):
        SharedRegion.create(PAGE, name=name, mode=mode)


def test_keep_is_for_names_and_populate_in_is_one_of_two():
    with pytest.raises(ValueError, match="keep=True"):
        SharedRegion.create(PAGE, keep=True)
    with pytest.raises(ValueError, match="attacher"):
        SharedRegion.create(PAGE, populate_in="both")


def test_new_writers_can_be_forbidden_for_nameless_memory_only(name):
    with SharedRegion.create(PAGE) as region:
        region.forbid_new_writers()
        memoryview(region)[0] = 1
        with region.handle() as given:
            with pytest.raises(PermissionError, match="read_only=True"):
                SharedRegion.attach(given)
            with pytest.raises(PermissionError):
                mmap.mmap(region.fileno(), PAGE)
            SharedRegion.attach(given, read_only=True).close()
    with SharedRegion.create(PAGE, name=name) as named, pytest.raises(Unsupported, match="nameless"):
        named.forbid_new_writers()


def test_whoever_attaches_populates_where_it_was_so_chosen():
    with SharedRegion.create("8MiB", pages="base", node=0, populate_in="attacher") as region:
        assert region.resident() == 0
        with region.handle() as given, SharedRegion.attach(given) as other:
            assert other.resident() == 8 << 20 and other.verify().ok


def test_a_full_dev_shm_leaves_no_name():
    code = """
import ctypes, errno, os, subprocess
from zerosys.region import SharedRegion
ctypes.CDLL(None).unshare(0x20000)
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", "/dev/shm"], check=True)
try:
    SharedRegion.create(1 << 20, name="full", pages="base")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
print(os.listdir("/dev/shm"), os.statvfs("/dev/shm").f_bfree)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[] 16\n", "")


def test_an_old_array_over_a_named_region_reads_zeros(name):
    region = SharedRegion.create(PAGE, name=name)
    array = np.ndarray(PAGE, "u1", buffer=region)
    array[:] = 1
    region.close()
    assert not array.any()


def test_a_refused_link_leaves_nothing():
    code = """
from counts import nothing_left
from zerosys.region import SharedRegion
SharedRegion.create(4096).close()
with nothing_left():
    try:
        SharedRegion.create(4096, name="refused")
    except OSError as error:
        print(error.errno)
"""
    tests = os.path.dirname(__file__)
    done = refused(
        [Refuse("linkat", errno.EACCES)], code,
        env={**os.environ, "PYTHONPATH": f"{os.path.dirname(tests)}:{tests}"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{errno.EACCES}\n", "") and not there("refused")


def test_an_interrupt_right_after_the_name_appeared_takes_it_away(monkeypatch, name):
    real = names.publish

    def interrupted(*arguments, **words):
        real(*arguments, **words)
        assert os.path.exists(f"{SHM}/{name}")
        raise KeyboardInterrupt

    monkeypatch.setattr(names, "publish", interrupted)
    with nothing_left(), pytest.raises(KeyboardInterrupt):
        SharedRegion.create(4096, name=name)
    assert not os.path.exists(f"{SHM}/{name}")


@pytest.mark.parametrize(
    ("timeout", "error", "text"),
    [
        (float("nan"), ValueError, "timeout must be 0 seconds or more, not nan"),
        (-1, ValueError, "timeout must be 0 seconds or more, not -1"),
        ("5", TypeError, "timeout must be seconds, a number, not '5'"),
    ],
)
def test_what_cannot_be_waited_is_refused_at_once(timeout, error, text):
    with pytest.raises(error, match=text):
        SharedRegion.attach("zerosys-test-absent", timeout=timeout)
