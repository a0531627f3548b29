"""Who lives: by the byte lock; by pid and start time where that cannot be had; else nobody is called dead."""

import mmap
import os
import signal
import struct
import time
from contextlib import contextmanager

import pytest
from needs import need

from zerosys import MessageRing, PeerDead

NOBODY = 65534
SLOT = 2048  # where the first slot begins
PEER = SLOT + 152
WRITER = 1536  # its state
BY_LOCK, BY_PID = 1, 2


@contextmanager
def slots_of(ring):
    """The control file's bytes, of which a test changes what a stranger might."""
    with ring.handle() as handle, mmap.mmap(handle.fileno(), 0) as control:
        yield control


def sign(control, life, pid, began, pid_space, time_space):
    """Say that slot 0 has a reader."""
    control[SLOT + 140 : SLOT + 144] = struct.pack("I", 2)
    control[PEER : PEER + 32] = struct.pack("IIQQQ", life, pid, began, pid_space, time_space)


def began(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def space(kind):
    return os.stat(f"/proc/self/ns/{kind}").st_ino


def state(ring):
    return ring.stat()["readers"][0]["state"]


def test_a_live_pid_with_another_start_time_is_dead_and_with_its_own_alive():
    with MessageRing.create(4096) as ring, slots_of(ring) as control:
        mine = os.getpid(), began(os.getpid()), space("pid"), space("time")
        sign(control, BY_PID, *mine)
        assert state(ring) == "alive"
        sign(control, BY_PID, mine[0], mine[1] + 1, *mine[2:])
        assert state(ring) == "dead"


def test_a_pid_of_another_namespace_is_never_called_dead():
    with MessageRing.create(4096) as ring, slots_of(ring) as control:
        for spaces in ((1, space("time")), (space("pid"), 1)):
            sign(control, BY_PID, 999_999, 5, *spaces)
            assert state(ring) == "unknown"
        sign(control, BY_PID, 999_999, 5, space("pid"), space("time"))
        assert state(ring) == "dead"


def test_a_slot_that_says_lock_and_has_none_is_dead():
    with MessageRing.create(4096) as ring, slots_of(ring) as control:
        sign(control, BY_LOCK, os.getpid(), began(os.getpid()), space("pid"), space("time"))
        assert state(ring) == "dead"
        with ring.reader() as r:  # whoever takes it has the lock
            assert r.slot == 0 and state(ring) == "alive"


@contextmanager
def stranger(ring):
    """A reader in a process of another user, who may not reopen the control file."""
    ready, go = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setuid(NOBODY)
            reader = ring.reader()
            os.write(go, b"x")
            for message in reader:
                os.write(go, message)
        finally:
            os._exit(0)
    try:
        assert os.read(ready, 1) == b"x"
        yield child, ready
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(go)


def test_another_user_stands_in_by_its_pid():
    need("root", None if os.geteuid() == 0 else "only root becomes another user")
    with MessageRing.create(4096) as ring, ring.writer() as w:
        with stranger(ring) as (child, output):
            w.write(b"hello")
            assert os.read(output, 10) == b"hello"
            assert state(ring) == "alive"
            with pytest.raises(OSError, match=f"all slots of the ring are taken: process {child}"):
                ring.reader()
            os.kill(child, signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                w.write_many([bytes(1000)] * 8, timeout=0.3)
            assert state(ring) == "alive"
        assert state(ring) == "dead"
        begun = time.monotonic()
        with pytest.raises(PeerDead, match=f"process {child}, died"):
            w.write_many([bytes(1000)] * 8, timeout=10)
        assert time.monotonic() - begun < 2
        with ring.reader() as r:
            assert r.skip() == 4 and w.write(b"goes on") and r.read() == b"goes on"


def test_an_owner_who_is_only_signing_is_not_called_dead_for_what_the_last_one_signed():
    """A place is taken first, and signed then; here it stays as it is in between."""
    joining = struct.pack("I", 1)
    with MessageRing.create(4096) as ring, slots_of(ring) as control:
        ring.reader().close()
        control[SLOT + 140 : SLOT + 144] = joining
        assert state(ring) == "unknown"
        ring.writer().leave()
        control[WRITER : WRITER + 4] = joining
        assert ring.stat()["state"] == "unknown"
