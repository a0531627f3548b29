"""Whatever the kernel refuses, and whichever call it is: an error with a name, and nothing left behind."""

import errno
import json
import os
import subprocess
import sys

import failing
import pytest
import works
from failing import Work, judge, private, private_refusal, walk
from needs import need

WORKS = sorted(
    (kind for kind in vars(works).values() if isinstance(kind, type) and issubclass(kind, Work)),
    key=lambda kind: kind.__name__,
)
WORKS = [kind for kind in WORKS if kind not in (Work, *works.HUGE)]  # in tests/guest/two


@pytest.fixture(scope="module", autouse=True)
def private_mounts():
    need("private-mounts", private_refusal())


@pytest.mark.parametrize("work", WORKS, ids=lambda kind: kind.__name__)
def test_a_failure_at_any_call_leaves_nothing(work):
    judge(walk(work), work)


# -- the walk itself --------------------------------------------------------------------------


class LosesItsDescriptor(Work):
    def work(self):
        os.ftruncate(os.memfd_create("lost"), 4096)

    def check(self, made):
        """Lost in every case."""


class LosesItsName(Work):
    def work(self):
        fd = os.open("/dev/shm/lost", os.O_CREAT | os.O_RDWR)
        try:
            os.ftruncate(fd, 4096)
            os.unlink("/dev/shm/lost")
        finally:
            os.close(fd)


class SaysNothing(Work):
    def work(self):
        try:
            os.stat("/")
        except OSError:
            raise RuntimeError from None


class Pretends(Work):
    def work(self):
        try:
            return os.stat("/").st_mode
        except OSError:
            return None

    def check(self, made):
        assert made


@pytest.mark.parametrize(
    ("work", "seen"),
    [
        (LosesItsDescriptor, "descriptors"),
        (LosesItsName, "names"),
        (SaysNothing, "raised RuntimeError"),
        (Pretends, "succeeded, but AssertionError"),
    ],
)
def test_the_walk_sees_what_is_lost(work, seen):
    report = walk(work)
    assert any(seen in sentence for sentence in report.wrong), report


class StatTwice(Work):
    def work(self):
        os.stat("/")
        os.stat("/etc")


def test_the_walk_goes_over_every_call_with_every_errno():
    report = walk(StatTwice)
    assert (report.wrong, sum(report.raised.values())) == ([], 2 * len(failing.ERRNOS))


# -- limits that are reached, and not played ----------------------------------------------------

LIMITED = """
import errno, json, os, resource, socket, sys
sys.path.insert(0, {tests!r})
from contextlib import ExitStack
from counts import nothing_left
from works import NAME, PATH
from zerosys import handle, names
from zerosys.region import SharedRegion
from zerosys.shared_memory import SharedMemory

SIZE = {size}
seen = []

def attempt(use, after=lambda: None):
    with nothing_left():
        try:
            made = use()
        except (OSError, MemoryError) as error:
            seen.append(error.errno if isinstance(error, OSError) else errno.ENOMEM)
        else:
            seen.append(0)
            made.close()
            del made
    after()

def gone():
    if seen[-1]:
        assert not os.path.lexists(PATH), seen
    else:
        os.unlink(PATH)

def orphan():
    assert names.orphaned(PATH)

SharedRegion.create(SIZE, pages="base", name=NAME).close()  # to be attached, and everything imported
with ExitStack() as stack:
    region = stack.enter_context(SharedRegion.create(SIZE, pages="base", node=0))
    given = stack.enter_context(region.handle())
    a, b = map(stack.enter_context, socket.socketpair())
    ways = [
        (lambda: SharedRegion.create(SIZE, pages="base", node=0), lambda: None),
        (lambda: SharedRegion.create(SIZE, pages="thp"), lambda: None),
        (lambda: SharedRegion.attach(region), lambda: None),
        (lambda: SharedRegion.attach(given), lambda: None),
        (lambda: region.handle(read_only=True), lambda: None),
        (lambda: SharedRegion.attach(NAME), orphan),
        (lambda: SharedMemory(NAME), orphan),
    ]
    makers = [
        (lambda: SharedRegion.create(SIZE, pages="base", name=NAME), gone),
        (lambda: SharedMemory(NAME, create=True, size=SIZE), gone),
    ]
    for use, _ in ways:  # warm
        use().close()
{body}
print(json.dumps(sorted(set(seen))))
"""


def limited(body, size=64 << 10, options="size=64m"):
    """What errno came of each way to make and join memory of *size*, while *body* holds them to a limit."""
    mount = f'mount -t tmpfs -o {options} none /dev/shm && exec "$@"'
    code = LIMITED.format(tests=os.path.dirname(__file__), size=size, body=body)
    command = [*private(), "sh", "-c", mount, "sh", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def test_no_descriptor_left_to_have():
    body = """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = max(map(int, os.listdir("/proc/self/fd")))
    def held(use, room):
        taken = [os.dup(0) for _ in range(top)]
        limit = max(taken) + 1
        for fd in taken[len(taken) - room:]:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            return use()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in taken[: len(taken) - room]:
                os.close(fd)
    for room in range(5):
        for use, after in ways:
            attempt(lambda: held(use, room), after)
    os.unlink(PATH)
    for room in range(5):
        for use, after in makers:
            attempt(lambda: held(use, room), after)
        handle.send(a, given)
        attempt(lambda: held(lambda: handle.recv(b, timeout=5), room))
        if seen[-1]:
            a.close(), b.close()
            a, b = map(stack.enter_context, socket.socketpair())
"""
    assert limited(body) == [0, errno.EMFILE]


def test_no_addresses_left_to_have():
    body = """
    def held(use, room):
        used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGESIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + room, -1))
        try:
            return use()
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    for room in (0, 1 << 20, 31 << 20, 33 << 20, 65 << 20, 200 << 20):
        for use, after in ways:
            attempt(lambda: held(use, room), after)
    os.unlink(PATH)
    for room in (0, 1 << 20, 31 << 20, 33 << 20, 65 << 20, 200 << 20):
        for use, after in makers:
            attempt(lambda: held(use, room), after)
"""
    assert limited(body, size=32 << 20, options="size=128m") == [0, errno.ENOMEM]


@pytest.mark.parametrize("what", ["pages", "inodes"])
def test_no_room_left_in_dev_shm(what):
    body = """
    os.unlink(PATH)
    fill = open("/dev/shm/fill", "wb", buffering=0)
    page = bytes(os.sysconf("SC_PAGESIZE"))
    def free():
        about = os.statvfs("/dev/shm")
        return about.f_bfree, about.f_ffree
    if WHAT == "inodes":
        for n in range(free()[1]):
            open(f"/dev/shm/{n}", "w").close()
    for left in range(20, -1, -1) if WHAT == "pages" else [0, 0]:
        if WHAT == "pages":
            while free()[0] > left:
                fill.write(page)
        before = free()
        for use, after in makers:
            attempt(use, after)
            assert free() == before
        assert bool(seen[-1]) == (WHAT == "inodes" or left < SIZE // len(page)), (left, seen)
""".replace("WHAT", repr(what))
    options = "size=1m,nr_inodes=64"
    assert limited(body, options=options) == ([0, errno.ENOSPC] if what == "pages" else [errno.ENOSPC])
