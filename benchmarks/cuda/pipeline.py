"""From a ring to the GPU: what do windows cost beside plain pinned copies, and how much of it overlaps?"""

from __future__ import annotations

import multiprocessing
import time
from itertools import cycle, islice

import cupy
import numpy
import torch

from benchmarks.common import Bar, Row
from benchmarks.cuda.question import Question, finish, pattern, timed
from examples.modulations import analyse
from zerosys import SharedRegion, StreamRing, cuda

MIB = 1 << 20
WINDOW = 24 * MIB  # in a ring of a power of two: every few windows lie across the seam


def hand_over(ring, stop, write) -> None:
    """A producer: windows as fast as they are taken; written anew, or with what the ring's memory has."""
    words, fresh = pattern(WINDOW // 4, 5), 6  # windows that fill the ring once
    with ring.writer() as writer:
        while not stop.is_set():
            try:
                window = writer.claim(len(words), 0.2)
            except TimeoutError:
                continue
            with window:
                if write or fresh > 0:
                    window.array[:] = words
            fresh -= 1


class Producer:
    """The process of it, and the reader at this end, whose ring is registered."""

    def __init__(self, write: bool) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.ring = StreamRing.create(128 * MIB, "u4", node="cuda:0", strict=False)
        self.reader = self.ring.reader(start="oldest")
        self.registration = cuda.register(self.ring, 0)
        self.stop = spawn.Event()
        self.process = spawn.Process(target=hand_over, args=(self.ring, self.stop, write))
        self.process.start()
        with self.reader.peek(WINDOW // 4, 60):
            pass

    def close(self) -> None:
        self.stop.set()
        self.process.join()
        self.reader.close()
        self.registration.close()
        self.ring.close()


def plain_copies(count: int) -> Row:
    pinned = torch.empty(WINDOW, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(WINDOW, dtype=torch.uint8, device="cuda")

    def copy() -> float:
        return timed(lambda: [there.copy_(pinned, non_blocking=True) for _ in range(count)])

    return Row("plain pinned copies", copy)


def build(quick: bool) -> Question:
    """Windows that another process hands over, the seam among them, against as many plain copies."""
    count = 8 if quick else 170
    producer = Producer(write=False)

    def carried() -> float:
        stats = cuda.Pipeline(
            producer.reader, lambda *_: None, items=WINDOW // 4, device=0, strict=True, timeout=60
        ).run(count)
        assert (stats.windows, stats.staged) == (count, 0)
        with producer.reader.peek(WINDOW // 4, 60) as window, cuda.DevicePool(0) as pool:
            with pool.acquire(WINDOW) as there:
                back = numpy.empty(WINDOW // 4, "u4")
                cuda.copy(there, window)
                cuda.copy(back, there)
                assert (back == window.array).all(), "the device has other bytes"
        return stats.seconds

    rows = [Row("ring windows to device", carried), plain_copies(count)]
    bars = [Bar("ring windows to device", "plain pinned copies", 1 / 0.97)]
    return Question("ring", f"{count} windows of {WINDOW // MIB} MiB", "s", rows, bars, 1, producer.close)


def build_overlap(quick: bool) -> Question:
    """Copy in, compute for as long, copy out: against both copies at once, and one after the other."""
    size, count = (4 * MIB, 8) if quick else (64 * MIB, 48)
    region = SharedRegion.create(8 * size)
    registration = cuda.register(region, 0)
    words = region.array("u4", (8, -1))
    words[:4] = pattern(size, 6).reshape(4, -1)
    there = cupy.empty((2, size // 4), "u4")
    into, out = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)

    def both_ways() -> None:
        for n in range(count):
            source, target = words[n % 4], words[4 + n % 4]
            cupy.cuda.runtime.memcpyAsync(there[0].data.ptr, source.ctypes.data, size, 1, into.ptr)
            cupy.cuda.runtime.memcpyAsync(target.ctypes.data, there[1].data.ptr, size, 2, out.ptr)

    copy = timed(lambda: cuda.copy(there[0], words[0]))
    there[1] = there[0]
    once = timed(lambda: [cupy.copyto(there[1], there[0]) for _ in range(50)]) / 50
    times = max(1, round(copy / once))

    def compute(source, target, stream) -> None:
        with cupy.cuda.ExternalStream(int(stream)):
            for _ in range(times):
                cupy.copyto(cupy.asarray(target), cupy.asarray(source))

    def line(depth: int) -> float:
        words[4:] = 0
        sink = islice(cycle(words[4:]), count)
        source = islice(cycle(words[:4]), count)
        stats = cuda.Pipeline(source, compute, sink, depth, device=0, strict=True).run()
        assert (words[:4] == words[4:]).all(), "other bytes came back"
        print(f"         depth {depth}: busy {stats.busy}, {stats.overlap:.2f} engines")
        return stats.seconds

    def close() -> None:
        registration.__exit__(None, None, None)
        region.__exit__(None, None, None)

    rows = [
        Row("pipeline", lambda: line(3)),
        Row("pipeline of depth 4", lambda: line(4)),
        Row("one after the other", lambda: line(1)),
        Row("both ways at once", lambda: timed(both_ways)),
    ]
    bars = [
        Bar("pipeline", "both ways at once", 1 / 0.95),
        Bar("pipeline of depth 4", "both ways at once", 1 / 0.95),
        Bar("pipeline", "one after the other", 1 / 1.8),
    ]
    return Question("overlap", f"{count} windows of {size // MIB} MiB each way", "s", rows, bars, 1, close)


def build_iq(quick: bool) -> Question:
    """Producer process, ring, copies, spectrum and moments: against the slower of producer and link."""
    count = 8 if quick else 100
    producer, plain = Producer(write=True), plain_copies(count)
    turn = cupy.ones(WINDOW // 8, "c8")

    def compute(source, _, stream) -> None:
        with cupy.cuda.ExternalStream(int(stream)):
            analyse(cupy, cupy.asarray(source).view("c8"), turn)

    def through() -> float:
        line = cuda.Pipeline(producer.reader, compute, items=WINDOW // 4, device=0, strict=True, timeout=60)
        return line.run(count).seconds

    def slower() -> float:
        begin = time.perf_counter()
        for _ in range(count):
            with producer.reader.peek(WINDOW // 4, 60):
                pass
        return max(time.perf_counter() - begin, plain.measure())

    rows = [Row("samples analysed", through), Row("producer or link", slower)]
    bars = [Bar("samples analysed", "producer or link", 1 / 0.9)]
    return Question("iq", f"{count} windows of {WINDOW // MIB} MiB", "s", rows, bars, 1, producer.close)


class Samples:
    """1 MiB each, which a worker makes by one copy."""

    def __init__(self, count: int) -> None:
        self.count, self.sample = count, pattern(MIB // 4, 8).view("i4")

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, n: int) -> numpy.ndarray:
        if n >= self.count:
            raise IndexError(n)
        return self.sample


class IntoSlot:
    def __init__(self, pool: cuda.SlotPool) -> None:
        self.pool = pool

    def __call__(self, samples: list[numpy.ndarray]) -> cuda.Slot:
        slot = self.pool.acquire(timeout=60)
        numpy.stack(samples, out=slot.array("i4", (len(samples), MIB // 4)))
        return slot


def build_loader(quick: bool) -> Question:
    """8 workers and samples of 1 MiB: slots against torch's own pin_memory=True."""
    from torch.utils.data import DataLoader

    count, batch = (64, 8) if quick else (2048, 16)
    pool = cuda.SlotPool.create(24, batch * MIB, device=0)
    words = {"batch_size": batch, "num_workers": 8, "persistent_workers": True}
    ours = DataLoader(Samples(count), collate_fn=IntoSlot(pool), **words)
    theirs = DataLoader(Samples(count), pin_memory=True, **words)
    wanted = int(Samples(1)[0].sum(dtype="i8")) * count

    def epoch(loader) -> float:
        finish()
        begin, total = time.perf_counter(), torch.zeros((), dtype=torch.int64, device="cuda")
        for loaded in loader:
            there = torch.from_dlpack(loaded).to("cuda", non_blocking=True)
            if isinstance(loaded, cuda.Slot):
                loaded.release(after=torch.cuda.current_stream())
            total += there.view(torch.int32).sum(dtype=torch.int64)
        assert int(total) == wanted, "other samples arrived"
        return time.perf_counter() - begin

    def close() -> None:
        nonlocal ours, theirs
        ours = theirs = None
        pool.__exit__(None, None, None)

    rows = [Row("slots", lambda: epoch(ours)), Row("torch pin_memory", lambda: epoch(theirs))]
    bars = [Bar("slots", "torch pin_memory", 1 / 1.2)]
    return Question("loader", f"{count} samples of 1 MiB, 8 workers", "s", rows, bars, 1, close)


def build_slots(quick: bool) -> Question:
    """One slot acquired and given back."""
    rounds = 1000 if quick else 100_000
    pool = cuda.SlotPool.create(64, MIB)

    def once() -> float:
        begin = time.perf_counter()
        for _ in range(rounds):
            pool.acquire(1.0).release()
        seconds = time.perf_counter() - begin
        assert pool.free == 64
        return seconds / rounds * 1e6

    rows = [Row("acquire and release", once)]
    return Question(
        "slots", "64 slots", "us", rows, [Bar("acquire and release", None, plus=5.0)], 1, pool.close
    )
