"""A ring that is filled to its last byte, as only a record as long as the ring itself does too."""

import errno
import os
import signal
import subprocess
import sys

import pytest
from private_shm import run

from zerosys import MessageRing, StreamRing

PAGE = os.sysconf("SC_PAGE_SIZE")


def fill(writer, length):
    sent = []
    while writer.try_write(message := bytes([len(sent) & 255]) * length):
        sent.append(message)
    return sent


def drain(reader):
    return list(iter(reader.try_read, None))


def test_messages_that_fill_a_fresh_ring_exactly_all_arrive():
    with MessageRing.create(PAGE) as ring, ring.writer() as writer, ring.reader("oldest") as reader:
        sent = fill(writer, 48)  # 64 bytes with its header
        assert len(sent) * 64 == ring.data_size
        assert drain(reader) == sent


def test_messages_that_fill_it_after_one_as_long_as_the_ring_all_arrive():
    with MessageRing.create(PAGE) as ring, ring.writer() as writer, ring.reader("oldest") as reader:
        for _ in range(3):
            whole = os.urandom(PAGE)
            assert writer.try_write(whole)
            assert drain(reader) == [whole]
            sent = fill(writer, 48)
            assert drain(reader) == sent


DIES_WITH_A_CLAIM = """
import os, signal, sys
from zerosys import MessageRing
ring = MessageRing.attach(sys.argv[1])
writer = ring.writer()
claim = writer.claim(ring.capacity)
claim[:] = bytes(ring.capacity)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_message_that_a_killed_writer_had_only_claimed_does_not_hide_the_next_ones():
    name = f"zerosys-test-full-{os.getpid()}"
    with MessageRing.create(PAGE, name=name) as ring:
        try:
            with ring.reader("oldest") as reader:
                died = subprocess.run([sys.executable, "-c", DIES_WITH_A_CLAIM, name], timeout=60)
                assert died.returncode == -signal.SIGKILL
                with ring.writer() as writer:
                    sent = fill(writer, 48)
                    assert drain(reader) == sent
        finally:
            ring.unlink()


def test_items_that_fill_a_ring_exactly_all_arrive():
    with StreamRing.create(PAGE, "u8") as ring, ring.writer() as writer, ring.reader("oldest") as reader:
        assert writer.try_write(bytes(PAGE)) == PAGE // 8
        assert writer.try_write(bytes(8)) is None
        assert reader.available == PAGE // 8


FULL = """
import os
from zerosys import StreamRing
try:
    StreamRing.create("64KiB", "u1", name="no-room")
except OSError as refusal:
    print(refusal.errno, refusal, os.listdir("/dev/shm"))
"""


@pytest.mark.parametrize("size", ["4k", "64k"])  # none for the data, and none but for the data
def test_a_full_file_system_is_named_and_no_half_of_a_ring_is_left(size):
    done = run([sys.executable, "-c", FULL], size=size)
    assert done.stderr == "" and done.stdout.startswith(f"{errno.ENOSPC} ")
    assert "the file system /dev/shm is full" in done.stdout and done.stdout.endswith(" []\n")
