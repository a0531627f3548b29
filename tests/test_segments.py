"""Looking at shared memory with names: everything is seen, nothing is touched, nobody is trusted."""

import fcntl
import json
import os
import secrets
import subprocess
import sys
import threading

import pytest
from counts import nothing_left
from memory import PAGE

from zerosys import names, segments
from zerosys.attached import Process, attached
from zerosys.region import SharedRegion

SHM = "/dev/shm"
NOBODY = 65534


@pytest.fixture
def name():
    chosen = f"zerosys-test-{secrets.token_hex(6)}"
    yield chosen
    if os.path.lexists(f"{SHM}/{chosen}"):
        os.unlink(f"{SHM}/{chosen}")


def foreign(name, size, *, mode=0o600, pages=()):
    """Another program's segment of *size* bytes that has the pages of these numbers; its descriptor."""
    fd = os.open(f"{SHM}/{name}", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.fchmod(fd, mode)
    os.ftruncate(fd, size)
    for page in pages:
        os.pwrite(fd, b"x", page * PAGE)
    return fd


def as_nobody(code, *arguments):
    """Run *code* as a user without rights; what it prints, read as JSON."""
    drop = f"import json, os, sys\nfrom zerosys import names, segments\nos.setuid({NOBODY})\n"
    done = subprocess.run(
        [sys.executable, "-c", drop + code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_region_is_seen_as_it_is(name):
    with SharedRegion.create(3 * PAGE - 5, name=name, mode=0o640) as region:
        with nothing_left():
            seen = segments.segment(name)
        assert (seen.name, seen.path, seen.size) == (name, f"{SHM}/{name}", 3 * PAGE - 5)
        assert (seen.page_size, seen.pages, seen.nodes) == (PAGE, 3, dict(region.placement().nodes))
        assert (seen.uid, seen.mode & 0o777, seen.state) == (os.geteuid(), 0o640, "in use")
        assert os.getpid() in [process.pid for process in seen.attached]
        assert segments.segment("/" + name).path == seen.path
        assert seen.path in [one.path for one in segments.listing()]


def test_states_are_those_that_the_collector_goes_by(name):
    region = SharedRegion.create(PAGE, name=name)
    assert segments.segment(name).state == "in use"
    region.close()
    seen = segments.segment(name)
    assert (seen.state, seen.attached) == ("orphan", ())
    assert names.collect(seen.path)
    SharedRegion.create(PAGE, name=name, keep=True).close()
    assert segments.segment(name).state == "kept"
    region.unlink()
    os.unlink(seen.path)
    os.close(foreign(name, PAGE))
    assert segments.segment(name).state == "foreign"


def test_what_is_to_be_kept_stays_whatever_a_stranger_writes(name):
    SharedRegion.create(PAGE, name=name, keep=True, mode=0o666).close()
    code = "fd = os.open(sys.argv[1], os.O_RDWR)\nprint(os.pwrite(fd, b'x', 0))"
    assert as_nobody(code, f"{SHM}/{name}") == 1
    assert segments.segment(name).state in ("kept", "foreign")
    assert not names.collect(f"{SHM}/{name}")


def test_looking_at_a_sparse_segment_makes_no_page(name):
    numbers = (0, 7, 8, 40_000, 262_142)
    fd = foreign(name, 1 << 30, pages=numbers)
    before = os.fstat(fd)
    with nothing_left():
        seen = segments.segment(name)
    after = os.fstat(fd)
    assert (sum(seen.nodes.values()), seen.unplaced, seen.pages) == (len(numbers), 0, len(numbers))
    assert (after.st_blocks, after.st_atime_ns) == (before.st_blocks, before.st_atime_ns)
    assert os.lseek(fd, PAGE, os.SEEK_DATA) == 7 * PAGE  # the holes are holes
    os.close(fd)


@pytest.mark.parametrize("size", [0, 1, PAGE - 1, PAGE + 1, 1 << 46])
def test_every_size_is_seen(name, size):
    fd = foreign(name, size)
    assert (segments.segment(name).size, segments.segment(name).pages) == (size, 0)
    if size:
        os.pwrite(fd, b"x", size - 1)
        assert sum(segments.segment(name).nodes.values()) == 1
    os.close(fd)


def test_pages_that_are_reserved_only_exist_and_are_left_so(name):
    fd = foreign(name, 1 << 20, pages=(3,))
    os.posix_fallocate(fd, 0, 1 << 20)
    seen = segments.segment(name)
    assert (seen.pages, sum(seen.nodes.values()), seen.unplaced) == (256, 1, 255)
    assert os.lseek(fd, 0, os.SEEK_DATA) == 3 * PAGE
    os.close(fd)


def test_a_segment_that_shrinks_while_we_look_sends_no_signal(name):
    fd = foreign(name, 1)
    code = f"""
import sys
from zerosys import segments
for _ in range(100):
    segments.segment({name!r})
print("whole")
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as looker:
        while looker.poll() is None:
            os.ftruncate(fd, 8 << 20)
            for offset in range(0, 8 << 20, 64 * PAGE):
                os.pwrite(fd, b"x" * 64 * PAGE, offset)
            os.ftruncate(fd, PAGE)
        assert (looker.returncode, looker.stdout.read()) == (0, "whole\n")
    os.close(fd)


def test_names_that_come_and_go_while_we_list_are_no_error(name):
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            SharedRegion.create(PAGE, name=name).close()
            os.unlink(f"{SHM}/{name}")

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(50):
            segments.listing()
    finally:
        stop.set()
        thread.join()


def test_what_may_not_be_read_is_listed_with_what_stat_tells(name):
    with SharedRegion.create(5 * PAGE, name=name):
        code = "seen = segments.segment(sys.argv[1])\nprint(json.dumps(seen.to_dict()))"
        seen = as_nobody(code, name)
        assert (seen["size"], seen["uid"], seen["state"]) == (5 * PAGE, 0, "unknown")
        assert (seen["nodes"], seen["unplaced"], seen["pages"]) == ({}, 5, 5)
        # Of this process nothing is known; that is said, and is not the same as nobody.
        assert seen["attached"] == [] and seen["unread"] > 0


def test_what_others_let_read_is_placed_for_everybody(name):
    os.close(foreign(name, 1 << 20, mode=0o644, pages=(1, 2, 200)))
    code = "seen = segments.segment(sys.argv[1])\nprint(json.dumps(seen.to_dict()))"
    seen = as_nobody(code, name)
    assert (sum(seen["nodes"].values()), seen["unplaced"], seen["state"]) == (3, 0, "foreign")
    assert os.stat(f"{SHM}/{name}").st_blocks * 512 == 3 * PAGE


def test_every_process_that_maps_it_is_told(name):
    code = f"""
from zerosys.region import SharedRegion
with SharedRegion.attach({name!r}, read_only=True):
    print("in", flush=True)
    input()
"""
    with SharedRegion.create(PAGE, name=name):
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout.readline() == b"in\n"
            seen = segments.segment(name).attached
            assert {process.pid for process in seen} == {os.getpid(), other.pid}
            assert all(process.command for process in seen)
            other.communicate(b"\n")
        assert [process.pid for process in segments.segment(name).attached] == [os.getpid()]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path)])
def test_what_is_no_segment_is_not_listed_and_not_removed(name, make):
    path = f"{SHM}/{name}"
    make(path)
    try:
        assert path not in [one.path for one in segments.listing()]
        for use in (segments.segment, segments.remove):
            with pytest.raises(ValueError, match="not a regular file"):
                use(name)
        assert os.path.lexists(path)
        assert not names.orphaned(path)
    finally:
        os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def test_a_name_is_removed_for_everybody_and_kept_by_who_has_it(name):
    with SharedRegion.create(PAGE, name=name) as region:
        assert segments.remove(name) == f"{SHM}/{name}"
        memoryview(region)[0] = 1
        with pytest.raises(FileNotFoundError, match="region ls"):
            segments.remove(name)
        with pytest.raises(FileNotFoundError):
            segments.segment(name)


def test_a_name_of_another_user_is_not_ours_to_remove(name):
    with SharedRegion.create(PAGE, name=name, mode=0o666):
        code = """
try:
    segments.remove(sys.argv[1])
except PermissionError as refusal:
    print(json.dumps(str(refusal)))
"""
        assert "only its owner" in as_nobody(code, name)
        assert os.path.exists(f"{SHM}/{name}")


def test_a_looker_s_lock_is_waited_for_even_without_a_timeout(name, monkeypatch):
    monkeypatch.setattr(names, "_GRACE", 30.0)
    SharedRegion.create(PAGE, name=name).close()
    fd = os.open(f"{SHM}/{name}", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    release = threading.Timer(0.05, os.close, (fd,))
    release.start()
    SharedRegion.attach(name).close()
    release.join()


def test_many_who_look_at_once_all_see_the_orphan(name):
    SharedRegion.create(PAGE, name=name).close()
    seen = []

    def look():
        for _ in range(2000):
            seen.append(names.orphaned(f"{SHM}/{name}"))

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    assert len(seen) == 4000 and all(seen)


def test_a_plain_value_says_all_of_it(name):
    with SharedRegion.create(PAGE, name=name):
        seen = segments.segment(name)
        told = json.loads(json.dumps(seen.to_dict()))
        assert told["pages"] == 1 and told["nodes"] == {str(n): c for n, c in seen.nodes.items()}
        assert told["attached"][0].keys() == {"pid", "command"} and told["mode"] == "1600"


@pytest.fixture
def proc(tmp_path):
    """A small /proc: one process that maps inode 7 of device 0:99, one that may not be asked."""
    for pid, lines in {"1": "", "30": f"7f0000-7f1000 rw-s 00000000 00:63 7{' ' * 20}/dev/shm/a\n"}.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "maps").write_text(lines)
        (tmp_path / pid / "comm").write_text("a) b\n")
    (tmp_path / "31").mkdir()  # it has ended
    return tmp_path


def test_maps_are_read_by_device_and_inode(proc):
    seen = attached({os.makedev(0, 0x63)}, proc)
    assert seen.to(os.makedev(0, 0x63), 7) == (Process(30, "a) b"),) and seen.unread == 0
    assert seen.to(os.makedev(0, 0x63), 8) == attached({os.makedev(0, 0x62)}, proc).to(0, 7) == ()


def test_hidden_processes_are_unknown(proc):
    (proc / "1").rename(proc / "x")
    assert attached({os.makedev(0, 0x63)}, proc).unread == 1
