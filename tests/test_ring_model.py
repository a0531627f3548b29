"""Rings against a list: random claims, commits, aborts, joins and leaves, from counts about to wrap."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zerosys import MessageRing, StreamRing
from zerosys.ring import stream

STARTS = (0, 2**31 - 3, 2**32 - 3, 2**63 - 3, 2**64 - 3)
SIZES = (1, 3, 24, 1000, 4093)
CAPACITIES = (4096, 5000, 8192)
NOISE = np.random.default_rng(1).bytes(1 << 20)
FEW = settings(max_examples=40, stateful_step_count=40, deadline=None)


def noise(number, size):
    """*size* bytes that are others for each *number*."""
    begin = number * 7919 % (len(NOISE) - size)
    return NOISE[begin : begin + size]


def begun_at(start, create):
    """The ring that *create* makes, whose counts begin at *start*."""
    before, stream._start = stream._start, start
    try:
        return create()
    finally:
        stream._start = before


class Items(RuleBasedStateMachine):
    """What is written is a running number of bytes; each reader has its own place in it."""

    @initialize(
        size=st.sampled_from(SIZES), start=st.sampled_from(STARTS), capacity=st.sampled_from(CAPACITIES),
    )  # fmt: skip
    def create(self, size, start, capacity):
        self.size = size
        self.ring = begun_at(
            start, lambda: StreamRing.create(capacity, f"V{size}", readers=2, on_full="raise")
        )
        self.limit = capacity // size
        assert self.ring.limit == self.limit
        self.writer = self.ring.writer()
        self.written = 0
        self.readers = {}
        self.tails = [0, 0]  # how far whoever had the slot last has released
        self.floor = 0  # what lies below may be overwritten

    def item(self, number):
        return noise(number, self.size)

    def items(self, begin, end):
        return b"".join(self.item(i) for i in range(begin, end))

    @property
    def room(self):
        return self.limit - (self.written - self.floor)

    @rule(share=st.floats(0, 1), part=st.floats(0, 1), abort=st.booleans())
    def claim(self, share, part, abort):
        n = max(1, round(share * self.limit))
        window = self.writer.try_claim(n)
        assert (window is not None) == (n <= self.room)
        if window is None:
            return
        window.raw[:] = self.items(self.written, self.written + n)
        if abort:
            window.abort()
        else:
            kept = round(part * n)
            window.commit(kept)
            self.written += kept

    @rule(share=st.floats(0, 1), listed=st.booleans())
    def write(self, share, listed):
        n = round(share * max(self.room, 0))
        data = self.items(self.written, self.written + n)
        if listed:
            assert self.writer.write_many([self.item(i) for i in range(self.written, self.written + n)]) == n
        else:
            assert self.writer.write(data) == n
        self.written += n

    @precondition(lambda self: len(self.readers) < 2)
    @rule(oldest=st.booleans())
    def join(self, oldest):
        reader = self.ring.reader("oldest" if oldest else "next")
        at = self.written - reader.available
        assert at == (self.floor if oldest else self.written)
        self.readers[reader.slot] = reader
        self.tails[reader.slot] = at

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def leave(self, data):
        slot = data.draw(st.sampled_from(sorted(self.readers)))
        self.readers.pop(slot).close()

    @precondition(lambda self: self.readers)
    @rule(
        data=st.data(), share=st.floats(0, 1), way=st.sampled_from(["peek", "part", "into", "skip", "some"])
    )
    def read(self, data, share, way):
        slot = data.draw(st.sampled_from(sorted(self.readers)))
        reader, at = self.readers[slot], self.tails[slot]
        waiting = self.written - at
        assert reader.available == waiting
        n = round(share * waiting)
        if not n:
            assert waiting or reader.try_peek() is None
            return
        want = self.items(at, at + n)
        if way == "skip":
            assert reader.skip(n) == n
        elif way == "into":
            room = bytearray(n * self.size)
            assert reader.read_into(room) == n and room == want
        else:
            window = reader.peek_some(n) if way == "some" else reader.peek(n)
            assert window.raw == want and len(window) == n
            n = n // 2 if way == "part" else n
            window.release(n)
        self.tails[slot] += n

    @invariant()
    def counts(self):
        behind = [self.tails[slot] for slot in self.readers]
        # Without readers, what none of those who were there had released is kept.
        self.floor = max(self.floor, min(behind) if behind else max(self.tails))
        assert self.writer.room_now == self.room
        assert self.ring.stat()["items"] == self.written
        for slot, reader in self.readers.items():
            assert reader.lag == self.written - self.tails[slot] <= self.limit

    def teardown(self):
        if hasattr(self, "ring"):
            self.writer.close()
            for slot, reader in self.readers.items():
                room = bytearray((self.limit + 1) * self.size)
                assert reader.read_into(room) == self.written - self.tails[slot]
                reader.close()
            self.ring.close()


class Messages(RuleBasedStateMachine):
    """Messages of every size up to the capacity, against a list of what was sent."""

    @initialize(start=st.sampled_from(STARTS), capacity=st.sampled_from(CAPACITIES))
    def create(self, start, capacity):
        self.capacity = capacity
        self.ring = begun_at(start, lambda: MessageRing.create(capacity))
        self.writer, self.reader = self.ring.writer(), self.ring.reader()
        self.waiting = []
        self.sent = 0

    def message(self, length):
        self.sent += 1
        return noise(self.sent, length)

    @rule(length=st.one_of(st.integers(0, 64), st.floats(0, 1)))
    def write(self, length):
        length = length if isinstance(length, int) else round(length * self.capacity)
        message = self.message(length)
        if self.writer.try_write(message):
            self.waiting.append(message)
        else:
            assert self.waiting

    @rule(lengths=st.lists(st.integers(0, 200), max_size=8))
    def write_many(self, lengths):
        messages = [self.message(length) for length in lengths]
        try:
            assert self.writer.write_many(messages, timeout=0) == len(messages)
            self.waiting += messages
        except TimeoutError as full:
            self.waiting += messages[: full.moved]

    @rule(length=st.floats(0, 1), part=st.floats(0, 1), abort=st.booleans())
    def claim(self, length, part, abort):
        length = round(length * self.capacity)
        window = self.writer.try_claim(length)
        if window is None:
            assert self.waiting
            return
        message = self.message(round(length * part))
        window.raw[: len(message)] = message
        if abort:
            window.abort()
        else:
            window.commit(len(message))
            self.waiting.append(message)

    @rule(way=st.sampled_from(["read", "peek", "into", "many", "skip"]), n=st.integers(1, 5))
    def read(self, way, n):
        assert self.reader.available == len(self.waiting)
        if not self.waiting:
            assert self.reader.try_read() is None and self.reader.try_peek() is None
        elif way == "read":
            assert self.reader.read() == self.waiting.pop(0)
        elif way == "peek":
            with self.reader.peek() as window:
                assert window.raw == self.waiting.pop(0)
        elif way == "into":
            room = bytearray(self.capacity)
            want = self.waiting.pop(0)
            assert self.reader.read_into(room) == len(want) and room.startswith(want)
        elif way == "many":
            want, self.waiting = self.waiting[:n], self.waiting[n:]
            assert self.reader.read_many(n) == want
        else:
            skipped = self.reader.skip(n)
            assert skipped == min(n, len(self.waiting))
            del self.waiting[:skipped]

    def teardown(self):
        if hasattr(self, "ring"):
            self.writer.close()
            assert list(self.reader) == self.waiting
            self.reader.close()
            self.ring.close()


TestItems = Items.TestCase
TestItems.settings = FEW
TestMessages = Messages.TestCase
TestMessages.settings = FEW


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("on_full", ["block", "overwrite"])
@pytest.mark.parametrize("size", SIZES)
def test_a_thousand_records_go_round_from_a_count_that_wraps(start, on_full, size):
    def create():
        return StreamRing.create(8192, f"V{size}", on_full=on_full, readers=2)

    with begun_at(start, create) as ring, ring.writer() as w, ring.reader() as r:
        late = None
        for number in range(0, 1000, 2):
            if number == 500:
                late = ring.reader("oldest")  # at what is still there, which fills a small ring
            if late:
                late.skip()
            two = noise(number, 2 * size if ring.limit > 1 else size)
            w.write(two, timeout=10)
            room = bytearray(len(two))
            assert r.read_into(room) * size == len(two) and room == two
        assert r.lost == 0 and r.lag == 0
        late.close()
