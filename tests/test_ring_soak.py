"""Many items through a ring between two processes at different addresses: each in order, the sum right."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from zerosys import StreamRing

PRODUCER = """
import sys
import numpy as np
from zerosys import StreamRing

name, seconds, most = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
import random, time
chance = random.Random(5)
ring = StreamRing.attach(name)
print(ring.address, flush=True)
number, until = 0, time.monotonic() + seconds
with ring.writer() as writer:
    while number < most and time.monotonic() < until:
        n = min(chance.choice([1, 2, 7, 100, 1000, 3000]), most - number)
        numbers = np.arange(number, number + n, dtype="u8")
        records = np.empty(n, ring.dtype)
        records["number"], records["check"] = numbers, numbers * np.uint64(0x9E3779B97F4A7C15)
        writer.write(records)
        number += n
"""
RECORD = np.dtype([("number", "u8"), ("check", "u8"), ("odd", "u1", 3)])  # straddles pages and the seam


def soak(label, seconds, most):
    """How many records went; each is checked."""
    name = f"zerosys-test-soak-{label}-{time.monotonic_ns()}"
    with StreamRing.create("64KiB", RECORD, name=name) as ring, ring.reader("oldest") as reader:
        command = [sys.executable, "-c", PRODUCER, name, str(seconds), str(most)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as producer:
            try:
                assert int(producer.stdout.readline()) != ring.address
                got = total = 0
                while window := reader.peek_some(timeout=60):
                    with window:
                        records = window.array
                        numbers, n = records["number"].copy(), len(records)
                        checks = records["check"].copy()
                        del records
                    assert numbers[0] == got and np.all(np.diff(numbers) == 1)
                    assert np.array_equal(checks, numbers * np.uint64(0x9E3779B97F4A7C15))
                    got += n
                    total += int(numbers.sum())
                assert producer.wait(30) == 0
            finally:
                producer.kill()
                ring.unlink()
        assert total == got * (got - 1) // 2
        assert reader.lost == 0 and ring.stat()["items"] == got
    return got


def test_ten_million_records_or_as_many_as_twenty_seconds_let_through_arrive():
    assert soak("ci", 20, 10**7) > 10**5


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_a_hundred_million_records_in_ten_minutes():
    assert soak("stress", 600, 10**8) > 10**7


def test_a_sleeping_reader_is_woken_at_once():
    """By a shared futex and not by the end of a slice, which would be 100 ms: the median of many."""
    with StreamRing.create(4096, "u8") as ring, ring.reader("oldest") as reader, ring.writer() as writer:
        woken = []

        def sleep():
            for _ in range(20):
                with reader.peek(1, 30):
                    woken.append(time.monotonic())

        sleeper = threading.Thread(target=sleep)
        sleeper.start()
        waits = []
        for number in range(20):
            time.sleep(0.02)
            sent = time.monotonic()
            writer.write(np.array([number], "u8"))
            deadline = sent + 30
            while len(woken) <= number and time.monotonic() < deadline:
                time.sleep(0.0005)
            waits.append(woken[number] - sent)
        sleeper.join()
    assert sorted(waits)[10] < 0.05
