"""Processes killed at random moments: the others go on, and what is left is whole and found.

Creators, attachers and collectors work on one name at once, and SIGKILL takes them at moments
that nobody chose. Whatever is seen under the name must be complete; whatever is left must be an
orphan that gc finds.
"""

import os
import random
import secrets
import signal
import subprocess
import sys

import pytest

from zerosys import names, segments
from zerosys.region import SharedRegion

SHM = "/dev/shm"
SIZE = 4 << 20
MARK = b"\xa5" * 8

# Each says that it has begun, then goes round until it is killed.
BEGIN = f"""
import os, sys
from zerosys.errors import NotReady
from zerosys.region import SharedRegion
name, SIZE, MARK = sys.argv[1], {SIZE}, {MARK!r}
print("begun", flush=True)
"""
CREATOR = (
    BEGIN
    + """
while True:
    try:
        with SharedRegion.create(SIZE, name=name, pages="base") as region:
            memoryview(region)[:8] = MARK
            region.unlink()
    except FileExistsError:
        pass
"""
)
ATTACHER = (
    BEGIN
    + """
while True:
    try:
        with SharedRegion.attach(name) as region:
            if region.size != SIZE or region.resident() != SIZE:
                os.write(2, b"half made: %d of %d" % (region.resident(), region.size))
            memoryview(region)[-8:] = MARK
    except (FileNotFoundError, NotReady):
        pass
"""
)


@pytest.fixture
def name():
    chosen = f"zerosys-test-{secrets.token_hex(6)}"
    yield chosen
    if os.path.lexists(f"{SHM}/{chosen}"):
        os.unlink(f"{SHM}/{chosen}")


class Worker:
    """A process that goes round until it is killed."""

    def __init__(self, code, name):
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout.readline() == b"begun\n"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        _, said = self.process.communicate(timeout=60)
        assert (self.process.returncode, said) == (-signal.SIGKILL, b"")


def attached(name):
    """A region of *name*, made if there is none: what a third process does."""
    while True:
        try:
            return SharedRegion.attach(name)
        except FileNotFoundError:
            pass
        try:
            return SharedRegion.create(SIZE, name=name, pages="base")
        except FileExistsError:
            pass


def kill_one(name, moments):
    """One creator and one attacher at work, and one of them killed after a moment."""
    workers = [Worker(CREATOR, name), Worker(ATTACHER, name)]
    moments.shuffle(workers)
    try:
        workers[0].process.wait(moments.random() * 0.03)
    except subprocess.TimeoutExpired:
        pass
    workers[0].kill()
    with attached(name) as third:  # the other one is still at it
        assert third.size == SIZE and third.resident() == SIZE
        memoryview(third)[8:16] = MARK
        assert memoryview(third)[8:16] == MARK
    workers[1].kill()
    if os.path.lexists(f"{SHM}/{name}"):
        left = segments.segment(name)
        assert (left.state, left.size, left.pages) == ("orphan", SIZE, SIZE // left.page_size)
        assert names.collect(left.path)
    assert not os.path.lexists(f"{SHM}/{name}")


def kill_many(name, times):
    """Kill both of *times* pairs; a failure shows the seed of the moments."""
    seed = secrets.randbits(32)
    print("seed", seed)
    moments = random.Random(seed)
    for _ in range(times):
        kill_one(name, moments)


def test_killed_at_any_moment_nothing_is_half_made_and_all_is_found(name):
    kill_many(name, 20)


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_killed_five_hundred_times_nothing_is_half_made_and_all_is_found(name):
    kill_many(name, 250)
