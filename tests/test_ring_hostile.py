"""Memory that a stranger writes: every number of a ring's control block set to anything.

What comes is data, or RingCorrupt, NotReady, TimeoutError or their like, within a second; never a signal,
never bytes from outside the ring, never more memory than the ring has.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from explorer_build import HEADERS

SELF = os.path.abspath(__file__)
ONCE = Path(SELF).parent / "foreign" / "ring_once.c"
HEADER, CONTROL, SLOT = 1024, 2048, 256
FIELDS = [*range(0, HEADER, 4), *range(HEADER, CONTROL, 8), *range(CONTROL, CONTROL + 2 * SLOT, 8)]
ODD = [
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    17,
    4095,
    4096,
    4097,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
]
CAPACITY = 4096
SLOW = 1.0  # seconds


def clock():
    """Seconds that this process ran or slept: not those that a busy machine had it wait for a processor."""
    waited = 0
    with (
        suppress(FileNotFoundError),
        open("/proc/self/schedstat") as statistics,
    ):  # where the kernel counts it
        waited = int(statistics.read().split()[1])
    return time.monotonic() - waited / 1e9


def corrupt(chance, control):
    """Change one to four numbers of *control*, more often those that matter."""
    changed = []
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.choice(FIELDS) if chance.random() < 0.4 else chance.choice(FIELDS[:28] + FIELDS[256:])
        size = chance.choice([1, 4, 8])
        value = chance.choice(ODD) if chance.random() < 0.7 else chance.getrandbits(64)
        if chance.random() < 0.3:  # near to what is there
            value = int.from_bytes(control[at : at + size], "little") + chance.choice(
                [-16, -1, 1, 8, 16, 4096]
            )
        control[at : at + size] = (value % 2**64).to_bytes(8, "little")[:size]
        changed.append((at, size, value))
    return changed


def writing(writer):
    return [lambda: writer.try_write(b"\xaa" * 64), lambda: writer.try_claim(64), lambda: writer.lost]


def reading(reader, kind):
    tries = [reader.try_peek, lambda: reader.read_into(bytearray(64), 0.001), lambda: reader.available]
    if kind == "stream":
        much = [lambda: reader.peek_some(1 << 40, 0.001), lambda: reader.skip(1 << 40)]
        return [*tries, lambda: reader.lag, lambda: reader.skip(1), *much]
    return [*tries, reader.try_read, lambda: reader.read_many(10, 0.001)]


def use(ring):
    """Every call of both ends, each bounded; the bytes that came."""
    from zerosys import Full, Overrun, PeerDead, RingCorrupt

    ends = (EOFError, StopIteration)
    expected = (RingCorrupt, PeerDead, Overrun, Full, OSError, ValueError, BufferError, *ends)
    got = 0

    def attempt(call):
        try:
            return call()
        except expected:
            return None

    attempt(ring.stat)
    attempt(lambda: repr(ring))
    reader = attempt(lambda: ring.reader("oldest"))
    writer = attempt(ring.writer)
    for end, tries in ((writer, writer and writing(writer)), (reader, reader and reading(reader, ring.kind))):
        for call in tries or ():
            answer = attempt(call)
            if isinstance(answer, (bytes, list)):
                got += len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
            elif answer is not None and hasattr(answer, "tobytes"):
                assert len(attempt(answer.tobytes) or b"") <= 2 * CAPACITY
                attempt(answer.abort if end is writer else answer.release)
            assert got <= 40 * CAPACITY
    for end in (reader, writer):
        if end is not None:
            attempt(end.close)


def child(kind, seed, count):
    """Corrupt *count* times; a line for each that took too long, and "done" at the end."""
    from zerosys import MessageRing, NotReady, RingCorrupt, StreamRing

    chance = random.Random(seed)
    makers = {
        "items": lambda full: StreamRing.create(CAPACITY, np.dtype("V24"), readers=2, on_full=full),
        "messages": lambda full: MessageRing.create(CAPACITY, readers=2, on_full=full),
    }
    outcomes = dict.fromkeys(["used", "corrupt", "unready", "refused"], 0)
    made = []
    for full in ("block", "drop", "overwrite"):
        ring = makers[kind](full)
        with ring.writer() as writer, ring.reader("oldest") as reader:
            for n in range(20):
                writer.write(bytes([n]) * (24 if kind == "items" else n * 5))
            if kind == "items":
                reader.skip(3)
            else:
                reader.try_read()
        made.append((ring, bytes(ring._control)))
    for number in range(count):
        ring, good = made[number % len(made)]
        with memoryview(ring._control) as control:
            control[:] = good
            control[HEADER + 16 : HEADER + 20] = bytes(4)  # the stream goes on
            changed = corrupt(chance, control)
        begun = clock()
        try:
            attached = type(ring).attach(ring.handle())
        except RingCorrupt:
            outcomes["corrupt"] += 1
        except (NotReady, BlockingIOError):
            outcomes["unready"] += 1
        except (OSError, ValueError):
            outcomes["refused"] += 1
        else:
            use(attached)
            try:
                attached.close()
            except BufferError:
                attached.__exit__(None, None, None)
            outcomes["used"] += 1
        if clock() - begun > SLOW:
            print("slow", changed, flush=True)
    for ring, good in made:
        with memoryview(ring._control) as control:
            control[:] = good
    print("done", *(f"{name}={times}" for name, times in outcomes.items()), flush=True)


def scribble(ring, chance, good):
    """Change the counters and the data for ever, and put the counters back now and then."""
    counters = [*range(HEADER, CONTROL, 8), *range(CONTROL, CONTROL + 2 * SLOT, 8)]
    with memoryview(ring._control) as control, memoryview(ring._data.mapping(writable=True)) as data:
        while True:
            for memory, places in ((control, counters), (data, range(0, CAPACITY, 8))):
                at, value = chance.choice(places), chance.choice([chance.choice(ODD), chance.getrandbits(64)])
                if chance.random() < 0.4:
                    value = int.from_bytes(memory[at : at + 8], "little") + chance.choice([-16, 1, 16, 4096])
                memory[at : at + 8] = (value % 2**64).to_bytes(8, "little")
            if chance.random() < 0.02:
                control[HEADER:] = good[HEADER:]


def beside(kind, seed, count):
    """The same calls *count* times while another process writes anything, and goes on writing."""
    from zerosys import MessageRing, StreamRing

    for full in ("block", "drop", "overwrite"):
        words = {"readers": 2, "on_full": full}
        ring = (
            StreamRing.create(CAPACITY, np.dtype("V24"), **words)
            if kind == "items"
            else MessageRing.create(CAPACITY, **words)
        )
        stranger = os.fork()
        if not stranger:
            try:
                scribble(ring, random.Random(seed), bytes(ring._control))
            finally:
                os._exit(1)
        try:
            for _ in range(count):
                begun = clock()
                attached = type(ring).attach(ring.handle())
                use(attached)
                attached.__exit__(None, None, None)
                if clock() - begun > SLOW:
                    print("slow", full, flush=True)
            assert os.waitpid(stranger, os.WNOHANG) == (0, 0)  # it still writes
        finally:
            os.kill(stranger, signal.SIGKILL)
            os.waitpid(stranger, 0)
    print("done used=1")


def hostile(kind, seed, count, timeout, work="child"):
    limit = 3 << 30

    def confine():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    command = [sys.executable, "-X", "faulthandler", SELF, work, kind, str(seed), str(count)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, preexec_fn=confine,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    last = done.stdout.strip().splitlines()[-1:] or [""]
    why = signal.Signals(-done.returncode).name if done.returncode < 0 else done.stderr[-3000:]
    assert done.returncode == 0, f"seed {seed}: {why}\n{done.stderr[-2000:]}"
    assert last[0].startswith("done ") and "slow" not in done.stdout, done.stdout[-1000:]
    return dict(pair.split("=") for pair in last[0].split()[1:])


@pytest.mark.parametrize("kind", ["items", "messages"])
def test_corruptions_end_in_an_error_or_in_data(kind):
    outcomes = hostile(kind, 1, 10_000, 115)
    assert int(outcomes["corrupt"]) > 500 and int(outcomes["used"]) > 500


@pytest.mark.parametrize("kind", ["items", "messages"])
def test_corruptions_while_the_calls_run_end_in_an_error_or_in_data(kind):
    hostile(kind, 1, 500, 115, work="beside")


def counted(folder, headers):
    """What ring_once.c prints, built over *headers*."""
    compiler = os.environ.get("CC", "cc").split()
    options = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{headers}"]
    subprocess.run([*compiler, *options, ONCE, "-o", folder / "once"], check=True)
    return subprocess.run([folder / "once"], capture_output=True, text=True, timeout=20).stdout


def test_each_step_reads_what_a_peer_may_change_once(tmp_path):
    assert counted(tmp_path, HEADERS) == "each once\n"


def test_a_length_that_is_read_again_after_it_was_checked_is_found(tmp_path):
    """Else the test above would prove nothing."""
    for header in HEADERS.glob("ring*.h"):
        (tmp_path / header.name).write_text(header.read_text())
    changed = tmp_path / "ring_message.h"
    checked = "    m->span = zs_message_span(ring, m->length);\n"
    again = "    m->length = ZS_RING_LOAD(&record->length, RELAXED, data);\n"
    assert changed.read_text().count(checked) == 1
    changed.write_text(changed.read_text().replace(checked, checked + again))
    assert counted(tmp_path, tmp_path) == "zs_message_next reads a number twice\n"


def test_a_format_that_is_a_number_alone_is_data_and_no_crash():
    from zerosys import StreamRing

    with StreamRing.create(CAPACITY, "u1") as ring:
        with memoryview(ring._control) as control:
            control[160:161] = b"5"  # the format, as docs/ring-layout.md has it
        with StreamRing.attach(ring.handle()) as attached, attached.reader() as reader:
            assert reader.available == 0


def test_no_window_is_longer_than_the_ring_however_far_the_head_of_an_overwriting_writer_is():
    from zerosys import StreamRing

    with StreamRing.create(CAPACITY, "u1", on_full="overwrite") as ring, ring.reader() as reader:
        with memoryview(ring._control) as control:
            control[HEADER : HEADER + 8] = (1 << 40).to_bytes(8, "little")
        with reader.peek_some(1 << 30) as window:
            assert len(window) == CAPACITY
        assert reader.skip(1 << 30) == CAPACITY


@pytest.mark.stress
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("kind", ["items", "messages"])
def test_a_million_corruptions_end_in_an_error_or_in_data(kind, seed):
    hostile(kind, 1000 + seed, 10_000, 600)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
