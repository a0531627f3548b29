"""Ends of a ring killed and stopped at any moment: the other raises PeerDead or goes on, within two seconds.

Nothing released comes again, nothing is torn or missing, and a stopped end is not a dead one.
"""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from zerosys import MessageRing, PeerDead, StreamRing

SELF = os.path.abspath(__file__)
LENGTHS = [8, 16, 24, 100, 1000]
HANG = 30  # seconds: on a busy machine two are not always two
PROMPT = 2.0
CAPACITY = 16 << 10


def message(number):
    """Whose number stands at both ends and throughout."""
    words = np.full(LENGTHS[number % len(LENGTHS)] // 8 + 1, number, "u8")
    return words.tobytes()


def number_of(raw):
    words = np.frombuffer(raw, "u8")
    number = int(words[0])
    assert raw == message(number), "a message is torn"
    return number


# -- the ends, as processes of their own -------------------------------------------------------------


def attach(name, kind):
    return (MessageRing if kind == "messages" else StreamRing).attach(name)


def write_for_ever(name, kind):
    ring = attach(name, kind)
    with ring.writer() as writer:
        number = ring.stat()["items"]
        print("up", flush=True)
        while True:
            if kind == "messages":
                writer.write(message(number))
                number += 1
            else:
                n = 1 + number % 50
                with writer.claim(n) as window:
                    window.array[:] = np.arange(number, number + n)
                number += n


def read_for_ever(name, kind):
    """Print "+N" when all below N is about to be released, and "=N" once it is."""
    ring = attach(name, kind)
    with ring.reader("oldest", slot=0) as reader:
        print("up", flush=True)
        while True:
            if kind == "messages":
                window = reader.peek()
                number = number_of(window.tobytes()) + 1
            else:
                window = reader.peek_some(60)
                items = window.array
                assert np.array_equal(items, np.arange(items[0], items[0] + len(items)))
                number = int(items[-1]) + 1
                del items
            os.write(1, f"+{number}\n".encode())
            window.release()
            os.write(1, f"={number}\n".encode())


def spawn(work, name, kind):
    process = subprocess.Popen([sys.executable, SELF, work, name, kind], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n", work
    return process


def named(kind, label, **words):
    name = f"zerosys-test-{label}-{kind}-{os.getpid()}"
    if kind == "messages":
        return MessageRing.create(CAPACITY, name=name, **words)
    return StreamRing.create(CAPACITY, "u8", name=name, **words)


def end(process):
    process.kill()
    process.stdout.close()
    process.wait()


# -- a writer that dies ------------------------------------------------------------------------------


def take(reader, kind, following):
    """Read once; the number that comes next."""
    if kind == "messages":
        number = number_of(reader.read(HANG))
        assert number == following, "a message is missing or came again"
        return number + 1
    window = reader.peek_some(100, HANG)
    with window:
        items = window.array
        assert np.array_equal(items, np.arange(following, following + len(items)))
        n = len(items)
        del items
    return following + n


def rounds_of_dead_writers(kind, rounds, seed):
    chance = random.Random(seed)
    slowest = 0.0
    with named(kind, "writers") as ring:
        try:
            with ring.reader("oldest") as reader:
                following = 0
                for _ in range(rounds):
                    writer = spawn("write_for_ever", ring.name, kind)
                    until = time.monotonic() + chance.random() * 0.02
                    while time.monotonic() < until:
                        following = take(reader, kind, following)
                    writer.kill()
                    writer.wait()
                    died = time.monotonic()
                    with pytest.raises(PeerDead) as dead:
                        while True:
                            following = take(reader, kind, following)
                    slowest = max(slowest, time.monotonic() - died)
                    assert dead.value.pid == writer.pid
                    writer.stdout.close()
                assert following == ring.stat()["items"]
        finally:
            ring.unlink()
    return slowest


@pytest.mark.parametrize("kind", ["items", "messages"])
def test_a_reader_is_told_of_each_dead_writer_and_the_next_one_goes_on(kind):
    assert rounds_of_dead_writers(kind, 10, 1) < PROMPT


# -- a reader that dies --------------------------------------------------------------------------------


def released(text):
    """What a killed reader has certainly released, and what it may have."""
    lines = text.decode().split("\n")[:-1]
    sure = max((int(line[1:]) for line in lines if line[0] == "="), default=0)
    may = max((int(line[1:]) for line in lines if line[0] == "+"), default=0)
    return sure, max(sure, may)


def rounds_of_dead_readers(rounds, seed):
    chance = random.Random(seed)
    with named("messages", "again") as ring:
        writer = spawn("write_for_ever", ring.name, "messages")
        try:
            sure, may = 0, 0
            for _ in range(rounds):
                reader = spawn("read_for_ever", ring.name, "messages")
                time.sleep(0.005 + chance.random() * 0.02)
                reader.kill()
                text = reader.stdout.read()
                reader.stdout.close()
                reader.wait()
                if not text.count(b"\n"):
                    continue
                first = int(text.split(b"\n", 1)[0][1:]) - 1  # +N: N - 1 was read
                assert sure <= first <= may, (sure, first, may)
                sure, may = released(text)
            assert sure > 0
        finally:
            end(writer)
            ring.unlink()


def test_what_a_dead_reader_released_does_not_come_again():
    rounds_of_dead_readers(20, 2)


def test_a_writer_is_told_of_a_dead_reader_within_two_seconds():
    for seed in range(5):
        with named("items", "told") as ring:
            try:
                reader = spawn("read_for_ever", ring.name, "items")
                with ring.writer() as writer:
                    writer.write(np.arange(500, dtype="u8"), HANG)
                    time.sleep(random.Random(seed).random() * 0.01)
                    reader.kill()
                    reader.wait()
                    reader.stdout.close()
                    died, number = time.monotonic(), 500
                    with pytest.raises(PeerDead) as dead:
                        while True:
                            writer.write(np.arange(number, number + 100, dtype="u8"), HANG)
                            number += 100
                    assert time.monotonic() - died < PROMPT
                    assert dead.value.pid == reader.pid
            finally:
                ring.unlink()


def test_a_writer_goes_on_without_dead_readers_that_it_may_evict():
    with named("items", "evict", on_dead="evict") as ring:
        try:
            with ring.writer() as writer:
                number = 0
                for _ in range(5):
                    reader = spawn("read_for_ever", ring.name, "items")
                    end(reader)
                    for _ in range(50):  # more than fits
                        writer.write(np.arange(number, number + 100, dtype="u8"), HANG)
                        number += 100
            assert ring.stat()["evicted"] >= 4
        finally:
            ring.unlink()


# -- stopped is not dead -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["items", "messages"])
def test_a_stopped_writer_is_not_dead_and_goes_on(kind):
    with named(kind, "stopped") as ring:
        writer = spawn("write_for_ever", ring.name, kind)
        try:
            with ring.reader("oldest") as reader:
                following = take(reader, kind, 0)
                for _ in range(3):
                    writer.send_signal(signal.SIGSTOP)
                    with pytest.raises(TimeoutError):
                        while True:
                            following = take_within(reader, kind, following, 0.5)
                    assert ring.stat()["state"] == "alive"
                    writer.send_signal(signal.SIGCONT)
                    for _ in range(100):
                        following = take(reader, kind, following)
        finally:
            end(writer)
            ring.unlink()


def take_within(reader, kind, following, seconds):
    if kind == "messages":
        assert number_of(reader.read(seconds)) == following
        return following + 1
    with reader.peek_some(100, seconds) as window:
        return following + len(window)


def test_a_stopped_reader_is_not_evicted():
    with named("items", "stopped-reader", on_dead="evict") as ring:
        reader = spawn("read_for_ever", ring.name, "items")
        try:
            with ring.writer() as writer:
                writer.write(np.arange(1000, dtype="u8"), HANG)
                reader.send_signal(signal.SIGSTOP)
                number = 1000
                with pytest.raises(TimeoutError):
                    while True:
                        writer.write(np.arange(number, number + 100, dtype="u8"), 0.5)
                        number += 100
                assert ring.stat()["evicted"] == 0
                reader.send_signal(signal.SIGCONT)
                sent = ring.stat()["items"]
                writer.write(np.arange(sent, sent + 1000, dtype="u8"), HANG)
        finally:
            end(reader)
            ring.unlink()


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_hundreds_of_dead_readers(seed):
    rounds_of_dead_readers(50, 100 + seed)


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["items", "messages"])
def test_hundreds_of_dead_writers(kind, seed):
    assert rounds_of_dead_writers(kind, 50, 100 + seed) < PROMPT


if __name__ == "__main__":
    {"write_for_ever": write_for_ever, "read_for_ever": read_for_ever}[sys.argv[1]](*sys.argv[2:])
