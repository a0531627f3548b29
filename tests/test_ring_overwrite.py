"""What a reader in overwrite mode has missed is counted, and is never taken for the end of the stream."""

import asyncio
import contextlib
import multiprocessing
import random
import time

import numpy as np
import pytest

from zerosys import MessageRing, Overrun, StreamRing

PAGE = 4096
SHORT = 0.02  # seconds


@pytest.fixture
def items():
    with StreamRing.create(PAGE, "u1", on_full="overwrite") as ring, ring.writer() as w, ring.reader() as r:
        yield w, r


@pytest.fixture
def messages():
    with MessageRing.create(PAGE, on_full="overwrite") as ring, ring.writer() as w, ring.reader() as r:
        yield w, r


ITEMS = {
    "peek": lambda r: r.peek(10, SHORT),
    "peek_some": lambda r: r.peek_some(10, SHORT),
    "read_into": lambda r: r.read_into(bytearray(10), SHORT),
}
MESSAGES = {
    "peek": lambda r: r.peek(SHORT),
    "read": lambda r: r.read(SHORT),
    "read_many": lambda r: r.read_many(10, SHORT),
    "read_into": lambda r: r.read_into(bytearray(PAGE), SHORT),
}
TRIES = {
    "try_peek": lambda r: r.try_peek(),
    "next_now": lambda r: r.next_now(),
}


@pytest.mark.parametrize("call", ITEMS.values(), ids=ITEMS)
def test_a_reader_waits_while_a_claim_takes_all_that_waited(items, call):
    w, r = items
    w.write(b"a" * 100)
    with w.claim(PAGE) as window:
        with pytest.raises(TimeoutError):
            call(r)
        assert not r.ended and r.lost == 100
        window[:] = b"b" * PAGE
    got = call(r)
    assert got == 10 or bytes(got) == b"b" * 10


@pytest.mark.parametrize("call", MESSAGES.values(), ids=MESSAGES)
def test_a_reader_waits_while_a_message_takes_all_that_waited(messages, call):
    w, r = messages
    w.write(b"a" * 100)
    with w.claim(PAGE) as window:
        with pytest.raises(TimeoutError):
            call(r)
        assert not r.ended
        window[:] = b"b" * PAGE
    got = call(r)
    assert got in (PAGE, [b"b" * PAGE]) or bytes(got) == b"b" * PAGE


@pytest.mark.parametrize("kind", ["items", "messages"])
@pytest.mark.parametrize("call", TRIES.values(), ids=TRIES)
def test_a_try_finds_nothing_while_a_claim_takes_all_that_waited(request, kind, call):
    w, r = request.getfixturevalue(kind)
    w.write(b"a" * 100)
    with w.claim(PAGE):
        assert call(r) is None
    assert len(call(r)) > 0


def test_a_message_is_not_there_to_be_tried_while_another_takes_its_place(messages):
    w, r = messages
    w.write(b"a" * 100)
    with w.claim(PAGE):
        assert r.try_read() is None


def test_what_a_claim_left_of_a_whole_window_is_less_than_peek_waits_for(items):
    w, r = items
    w.write(bytes(PAGE))
    with w.claim(PAGE - 96):
        with pytest.raises(TimeoutError):
            r.peek(100, SHORT)
        assert r.try_peek(100) is None
        with r.try_peek() as window:
            assert len(window) == 96
    assert r.lost == PAGE - 96


@pytest.mark.parametrize("kind", ["items", "messages"])
def test_the_stream_ends_also_where_all_that_waited_is_gone(request, kind):
    w, r = request.getfixturevalue(kind)
    w.write(b"a" * 100)
    w.claim(PAGE).abort()
    w.close()
    with r.peek_some(10) if kind == "items" else r.peek() as window:
        assert not window
    assert r.ended and list(r) == []


@pytest.mark.parametrize("kind", ["items", "messages"])
def test_an_iteration_on_an_event_loop_goes_on_after_all_that_waited_was_taken(request, kind):
    w, r = request.getfixturevalue(kind)

    async def write():
        claim = w.claim(PAGE)
        await asyncio.sleep(SHORT)
        claim[:] = b"b" * PAGE
        claim.commit()
        await asyncio.sleep(SHORT)
        w.close()

    async def main():
        w.write(b"a" * 100)
        writing = asyncio.create_task(write())
        await asyncio.sleep(0)  # the claim is made
        got = [bytes(block) async for block in r]
        await writing
        return b"".join(got)

    assert asyncio.run(main()) == b"b" * PAGE


def write_for(ring, seconds):
    """Numbers in claims of up to the whole ring, of which some are aborted and some take their time."""
    chance, number, until = random.Random(1), 0, time.monotonic() + seconds
    with ring.writer() as w:
        while time.monotonic() < until:
            n = chance.choice([1, 5, 100, 300, PAGE // 8])
            with w.claim(n if ring.kind == "stream" else 8 * n) as window:
                numbers = np.frombuffer(window.raw, "u8")
                numbers[:] = range(number, number + n)
                if chance.random() < 0.2:
                    time.sleep(chance.random() / 500)
                if chance.random() < 0.2:
                    window.abort()
                    continue
            number += n


def numbers_of(r, chance):
    """What one call of a reader brought, chosen by chance: an array; None where nothing whole came."""
    if isinstance(r.ring, MessageRing):
        if chance.random() < 0.5:
            return np.frombuffer(r.read(5) if chance.random() < 0.5 else next(r), "u8")
        message = r.try_read()
        return None if message is None else np.frombuffer(message, "u8")
    if chance.random() < 0.5:
        room = np.zeros(chance.choice([1, 50, 500]), "u8")
        if not (got := r.read_into(room, 5)):
            raise EOFError
        return room[:got]
    if chance.random() < 0.5:
        return next(r)
    with r.peek(chance.choice([1, 300]), 5) as window:
        if not window:
            raise EOFError
        held = window.array.copy()
        return held if window.intact() else None


@pytest.mark.parametrize("kind", ["items", "messages"])
def test_a_reader_of_a_faster_writer_has_ascending_numbers_until_the_end_and_no_sooner(kind):
    made = StreamRing.create(PAGE, "u8", on_full="overwrite") if kind == "items" else None
    with made or MessageRing.create(PAGE, on_full="overwrite") as ring, ring.reader() as r:
        writer = multiprocessing.get_context("fork").Process(target=write_for, args=(ring, 2))
        writer.start()
        chance, following, calls = random.Random(2), 0, 0
        try:
            while True:
                with contextlib.suppress(Overrun):
                    found = numbers_of(r, chance)
                    if found is not None:
                        assert found[0] >= following and (np.diff(found.astype("i8")) > 0).all()
                        following = int(found[-1]) + 1
                calls += 1
        except (EOFError, StopIteration):
            assert r.ended and calls > 100 and r.lost > 0
        writer.join()
