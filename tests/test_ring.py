"""A ring's two ends in one process: windows, copies, ends of streams, and what is refused."""

import array
import itertools

import numpy as np
import pytest
from counts import nothing_left

from zerosys import Full, MessageRing, Overrun, StreamRing
from zerosys.ring.base import Ring

PAGE = 4096


@pytest.fixture
def ring():
    with StreamRing.create(PAGE, "i4") as made:
        yield made


def written(writer, *items):
    assert writer.write(array.array("i", items)) == len(items)


def read(reader, n):
    out = array.array("i", [0]) * n
    return list(out[: reader.read_into(out)])


# -- windows -----------------------------------------------------------------------------------


def test_a_claimed_window_is_published_when_its_with_ends(ring):
    with ring.writer() as w, ring.reader() as r:
        with w.claim(3) as window:
            window[:] = array.array("i", [1, 2, 3])
            assert r.available == 0
        assert r.available == 3
        with r.peek(2) as seen:
            assert list(memoryview(seen)) == [1, 2] and len(seen) == 2 and seen.nbytes == 8
            assert r.lag == 3
        assert r.available == 1 and r.lag == 1


@pytest.mark.parametrize("dtype", ["c8", [("i", "u1"), ("q", "u1")], ("f4", (2, 2))])
def test_items_that_a_memoryview_cannot_index_are_indexed_all_the_same(dtype):
    kind = np.dtype(dtype)
    samples = np.arange(8 * kind.itemsize, dtype="u1").view(kind.base).reshape(8, *kind.shape)
    with StreamRing.create(4096, kind) as ring, ring.writer() as writer, ring.reader() as reader:
        with writer.claim(8) as window:
            window[:] = samples
            window[7] = samples[0]
        with reader.peek(8) as window:
            assert np.array_equal(window[:7], samples[:7]) and np.array_equal(window[7], samples[0])
            with pytest.raises((TypeError, ValueError)):
                window[0] = samples[0]  # it is the reader's


def test_an_exception_in_the_writers_window_aborts_it(ring):
    with ring.writer() as w, ring.reader() as r:
        with pytest.raises(ZeroDivisionError), w.claim(3):
            1 / 0  # noqa: B018
        assert r.available == 0
        written(w, 7)
        assert read(r, 1) == [7]


def test_an_exception_in_the_readers_window_releases_it(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, 1, 2)
        with pytest.raises(ZeroDivisionError), r.peek(1):
            1 / 0  # noqa: B018
        assert read(r, 1) == [2]


def test_a_partial_commit_publishes_the_first_items(ring):
    with ring.writer() as w, ring.reader() as r:
        window = w.claim(4)
        np.asarray(window)[:] = [1, 2, 3, 4]
        window.commit(2)
        assert read(r, 2) == [1, 2] and r.available == 0
        with pytest.raises(ValueError, match="closed"):
            window.commit()
        with pytest.raises(ValueError, match="at most the window's 4"):
            w.claim(4).commit(5)


def test_a_partial_release_leaves_the_rest(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, 1, 2, 3)
        r.peek(3).release(1)
        r.peek(2).put_back()
        assert read(r, 2) == [2, 3]


def test_a_window_that_straddles_the_end_is_contiguous(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, *range(1000))
        assert len(read(r, 1000)) == 1000
        with w.claim(100) as window:
            np.asarray(window)[:] = range(100)
        with r.peek(100) as seen:
            assert np.asarray(seen).tolist() == list(range(100))


def test_one_window_at_a_time(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, 1, 2)
        with w.claim(1), pytest.raises(BufferError, match="window of this streamwriter is open"):
            w.claim(1)
        with r.peek(1), pytest.raises(BufferError, match="open"):
            r.peek(1)
        with w.claim(1), pytest.raises(BufferError, match="open"):
            w.close()
        assert not w.closed


def test_a_forgotten_claim_is_aborted_and_a_forgotten_peek_not_released(ring):
    with ring.writer() as w, ring.reader() as r:
        w.claim(1)
        written(w, 5)
        r.peek(1)
        assert read(r, 1) == [5]


def test_a_readers_window_cannot_be_written(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, 5)
        with r.peek(1) as window:
            assert not np.asarray(window).flags.writeable
            with pytest.raises(TypeError, match="read-only"):
                window[0] = 1


# -- what does not fit, what is not there ------------------------------------------------------


def test_try_forms_answer_none(ring):
    with ring.writer() as w, ring.reader() as r:
        assert r.try_peek() is None and r.try_peek(3) is None
        written(w, *range(1020))
        assert w.try_claim(5) is None and w.try_write(bytes(20)) is None and w.try_write(bytes(16)) == 4
        assert len(r.try_peek(1024)) == 1024


def test_waits_end_at_the_timeout(ring):
    with ring.writer() as w, ring.reader() as r:
        with pytest.raises(TimeoutError, match=r"within 0.01 s"):
            r.peek(1, timeout=0.01)
        written(w, *range(1024))
        for wait in (lambda: w.claim(1, 0.01), lambda: w.write(bytes(4), 0.01)):
            with pytest.raises(TimeoutError, match="no reader made room for 1"):
                wait()
        with pytest.raises(TimeoutError):
            w.claim(1, timeout=0)


def test_what_never_fits_is_refused_at_once(ring):
    with ring.writer() as w, ring.reader() as r:
        for call in (w.claim, w.try_claim, r.peek, r.try_peek):
            with pytest.raises(ValueError, match="1025"):
                call(1025)
            with pytest.raises(ValueError, match="at least 1"):
                call(0)
        with pytest.raises(ValueError, match="whole items of 4 bytes, not 5"):
            w.write(b"12345")
        with pytest.raises(TypeError, match="items of 8 bytes"):
            w.write(np.zeros(2))
        with pytest.raises(TypeError, match="contiguous"):
            w.write(np.zeros(10, "i4")[::2])
        with pytest.raises(ValueError, match="whole items"):
            r.read_into(bytearray(6))
        with pytest.raises(TypeError, match="writable"):
            r.read_into(bytes(8))
        with pytest.raises(ValueError, match="timeout must be"):
            r.peek(1, timeout=-1)


def test_more_than_the_ring_holds_goes_by_parts_and_tells_how_far(ring):
    with ring.writer() as w, ring.reader() as r:
        with pytest.raises(TimeoutError) as stopped:
            w.write(np.arange(5000, dtype="i4"), timeout=0.01)
        assert stopped.value.moved == r.available > 500
        assert read(r, stopped.value.moved) == list(range(stopped.value.moved))


# -- ends --------------------------------------------------------------------------------------


def test_the_end_of_the_stream_shortens_and_then_empties_peeks(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, 1, 2, 3)
        w.close()
        assert not r.ended
        with r.peek(5) as last:
            assert len(last) == 3 and last
        for peek in (lambda: r.peek(5), r.peek_some, lambda: r.try_peek(2)):
            with peek() as empty:
                assert not empty and len(empty) == 0
        assert r.ended and read(r, 3) == []
        with pytest.raises(ValueError, match="the stream has ended"):
            ring.writer()


def test_read_into_stops_short_at_the_end(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, 1, 2, 3)
        w.close()
        assert read(r, 10) == [1, 2, 3]


def test_iterating_yields_blocks_until_the_end(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, 1, 2)
        blocks = iter(r)
        first = next(blocks)
        assert first.array.tolist() == [1, 2]
        written(w, 3)
        assert r.lag == 3
        assert next(blocks).array.tolist() == [3] and r.lag == 1
        w.close()
        assert list(blocks) == [] and r.lag == 0


def test_an_iteration_that_is_left_has_delivered_its_block(ring):
    with ring.writer() as w:
        with ring.reader() as r:
            written(w, 1, 2)
            for block in r:
                assert len(block) == 2
                break
        written(w, 3)
        with ring.reader() as r:
            assert read(r, 1) == [3]


def test_skip_releases_without_looking(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, *range(10))
        assert r.skip(3) == 3 and read(r, 1) == [3]
        assert r.skip() == 6 and r.skip() == 0


# -- places ------------------------------------------------------------------------------------


def test_there_is_one_writer_and_as_many_readers_as_slots(ring):
    with ring.writer(), ring.reader():
        with pytest.raises(OSError, match="the ring has a writer, process"):
            ring.writer()
        with pytest.raises(OSError, match="all slots of the ring are taken"):
            ring.reader()
        with pytest.raises(OSError, match="slot 0 is taken"):
            ring.reader(slot=0)
        with pytest.raises(ValueError, match="slot must be less than"):
            ring.reader(slot=1)
    with ring.reader() as again:
        assert again.slot == 0


def test_a_writer_that_leaves_lets_another_go_on(ring):
    with ring.reader() as r:
        w = ring.writer()
        written(w, 1)
        w.leave()
        with ring.writer() as w:
            written(w, 2)
            assert read(r, 2) == [1, 2]


def test_readers_join_at_the_oldest_or_the_next():
    with StreamRing.create(PAGE, "i4", readers=3) as ring, ring.writer() as w:
        written(w, 1, 2)
        with ring.reader() as first, ring.reader("next") as second:
            written(w, 3)
            assert first.available == 3 and second.available == 1
            with ring.reader("oldest") as third:
                assert third.available == 3
        with pytest.raises(ValueError, match="start must be"):
            ring.reader("newest")


def test_what_a_reader_released_is_not_delivered_to_the_next(ring):
    with ring.writer() as w:
        written(w, 1, 2, 3)
        with ring.reader() as r:
            assert read(r, 2) == [1, 2]
        with ring.reader() as r:
            assert read(r, 1) == [3]


def test_the_slowest_reader_holds_the_writer_up_until_it_leaves():
    with StreamRing.create(PAGE, "i4", readers=2) as ring, ring.writer() as w, ring.reader() as fast:
        slow = ring.reader()
        written(w, *range(1024))
        assert fast.skip() == 1024 and w.try_claim(1) is None and w.room_now == 0
        slow.close()
        assert w.room_now == 1024


# -- when it is full ---------------------------------------------------------------------------


def test_raise_says_full():
    with StreamRing.create(PAGE, "i4", on_full="raise") as ring, ring.writer() as w, ring.reader():
        written(w, *range(1024))
        with pytest.raises(Full, match="1024 of 1024 behind"):
            w.claim(1)
        assert w.try_claim(1) is None


def test_drop_counts_what_is_new():
    with StreamRing.create(PAGE, "i4", on_full="drop") as ring, ring.writer() as w, ring.reader() as r:
        written(w, *range(1024))
        assert w.write(bytes(8)) == 0 and w.lost == 2
        with w.claim(3) as window:
            np.asarray(window)[:] = 5
            assert window.dropped
        assert w.lost == 5 and ring.stat()["lost"] == 5
        with pytest.raises(ZeroDivisionError), w.claim(3):
            1 / 0  # noqa: B018
        assert w.lost == 5 and read(r, 1024) == list(range(1024))


def test_a_fill_limit_bounds_what_lies_between():
    with StreamRing.create("1MiB", "i4", fill_limit=6000) as ring, ring.writer() as w, ring.reader() as r:
        assert ring.capacity == 1 << 20 and ring.limit == 1500 and ring.data_size == 8192
        for _ in range(20):
            written(w, *range(1500))
            assert w.try_claim(1) is None
            assert read(r, 1500) == list(range(1500))


# -- messages ----------------------------------------------------------------------------------


@pytest.fixture
def messages():
    with MessageRing.create(PAGE) as made:
        yield made


def test_messages_come_whole_and_in_order(messages):
    sent = [b"a", b"", b"longer than sixteen bytes", bytes(1000)]
    with messages.writer() as w, messages.reader() as r:
        for message in sent:
            assert w.write(message) is True
        assert r.available == 4
        assert [r.read() for _ in sent] == sent
        assert r.try_read() is None and r.available == 0


def test_a_message_may_be_as_long_as_the_capacity(messages):
    with messages.writer() as w, messages.reader() as r:
        for length in (PAGE, PAGE - 1, PAGE - 15, PAGE - 16, PAGE - 17):
            w.write(b"x" * length)
            assert w.try_write(b"") is None or length <= PAGE - 32
            assert r.read() == b"x" * length
            r.skip()
        with pytest.raises(ValueError, match="at most the ring's capacity of 4096 bytes, not 4097"):
            w.write(bytes(PAGE + 1))
    with MessageRing.create(5000) as odd, odd.writer() as w, odd.reader() as r:
        w.write(b"y" * 5000)
        assert r.read() == b"y" * 5000


def test_many_messages_at_once_from_lists_and_rows(messages):
    with messages.writer() as w, messages.reader() as r:
        assert w.write_many([b"a", bytearray(b"bc"), memoryview(b"")]) == 3
        assert r.read_many() == [b"a", b"bc", b""]
        assert w.write_many(np.arange(6, dtype="u1").reshape(3, 2)) == 3
        assert r.read_many(2) == [b"\0\1", b"\2\3"] and r.read_many(5) == [b"\4\5"]
        with pytest.raises(TimeoutError) as stopped:
            w.write_many([bytes(1000)] * 10, timeout=0.01)
        assert stopped.value.moved == len(r.read_many()) == 4


def test_windows_of_messages(messages):
    with messages.writer() as w, messages.reader() as r:
        with w.claim(10) as window:
            window[:3] = b"abc"
            window.commit(3)
        with w.claim(0):
            pass
        with r.peek() as seen:
            assert seen.tobytes() == b"abc" and len(seen) == 3
        with r.peek() as empty:
            assert len(empty) == 0 and empty  # a message of no bytes, not the end
        w.close()
        with r.peek() as end:
            assert not end
        with pytest.raises(EOFError):
            r.read()
        assert r.read_many() == [] and list(r) == []


def test_a_message_into_a_buffer(messages):
    with messages.writer() as w, messages.reader() as r:
        w.write(b"12345")
        with pytest.raises(ValueError, match="5 bytes, and the buffer 3"):
            r.read_into(bytearray(3))
        room = bytearray(8)
        assert r.read_into(room) == 5 and room == b"12345\0\0\0"


def test_iterating_messages_ends_with_the_stream(messages):
    with messages.writer() as w, messages.reader() as r:
        w.write_many([b"1", b"2"])
        w.close()
        assert list(r) == [b"1", b"2"]


def test_messages_dropped_are_counted():
    with MessageRing.create(PAGE, on_full="drop") as ring, ring.writer() as w, ring.reader() as r:
        went = sum(w.write(bytes(500)) for _ in range(20))
        assert went == r.available == 7 and w.lost == 13


# -- dtypes ------------------------------------------------------------------------------------

DTYPES = [
    "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "c8", "c16",
    "S5", "U3", "V7",
    ">i4", ">c8", [("a", "u1"), ("b", ">f8")], np.dtype([("x", "i2"), ("y", "f8", 3)], align=True),
    ("f4", (3, 2)), [("i", "c8"), ("raw", "S3")],
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_arrives_as_it_was(dtype):
    kind = np.dtype(dtype)
    sent = np.frombuffer(np.random.default_rng(1).bytes(kind.itemsize * 20), np.uint8)
    with StreamRing.create(PAGE, dtype) as ring, ring.writer() as w, ring.reader() as r:
        void = kind.kind == "V" and not kind.names and not kind.shape
        kind = np.dtype(("u1", kind.itemsize)) if void else kind
        assert ring.item_size == kind.itemsize and ring.dtype == kind.base
        w.write(sent)
        with r.peek(20) as window:
            seen = window.array
            assert seen.shape == (20, *kind.shape) and seen.dtype == kind.base
            assert seen.tobytes() == sent.tobytes()
            assert window.raw.nbytes == sent.size


def test_dtypes_that_mean_nothing_elsewhere_are_refused():
    for dtype, why in (("O", "pointers"), ("V0", "0 bytes"), ("M8[s]", "cannot be lent")):
        with pytest.raises(ValueError, match=why), nothing_left():
            StreamRing.create(PAGE, dtype)


# -- overwriting -------------------------------------------------------------------------------


@pytest.fixture
def lossy():
    with StreamRing.create(PAGE, "i4", on_full="overwrite") as made:
        yield made


def test_the_oldest_is_overwritten_and_counted(lossy):
    with lossy.writer() as w, lossy.reader() as r:
        for start in range(0, 3000, 100):
            written(w, *range(start, start + 100))
        assert read(r, 5) == [1976, 1977, 1978, 1979, 1980]
        assert r.lost == 1976 and w.lost == 0


def test_a_lapped_window_says_so_and_raises_at_its_end(lossy):
    with lossy.writer() as w, lossy.reader() as r:
        written(w, *range(10))
        window = r.peek(10)
        assert window.intact()
        written(w, *range(1020))
        assert not window.intact()
        with pytest.raises(Overrun, match="overwrote 6") as lapped:
            window.release()
        assert lapped.value.lost == 6
        with r.peek(1) as seen:
            written(w, *range(1000))
            with pytest.raises(Overrun):
                seen.release()


def test_an_aborted_claim_still_costs_the_oldest(lossy):
    with lossy.writer() as w, lossy.reader() as r:
        written(w, *range(1024))
        w.claim(24).abort()
        assert read(r, 2) == [24, 25] and r.lost == 24


def test_a_reader_of_an_overwriting_ring_begins_at_the_next(lossy):
    with lossy.writer() as w:
        written(w, 1)
        with lossy.reader() as r:
            written(w, 2)
            assert read(r, 1) == [2]


def test_overwriting_yields_copies(lossy):
    with lossy.writer() as w, lossy.reader() as r:
        written(w, 1, 2)
        block = next(r)
        assert block.tolist() == [1, 2] and block.base is not None and r.lag == 0
        w.close()
        assert list(r) == []


def test_messages_overwritten_are_counted_and_never_torn():
    with MessageRing.create(PAGE, on_full="overwrite") as ring, ring.writer() as w, ring.reader() as r:
        sizes = itertools.cycle([1, 100, 700, 16, 4000, 4096, 3])
        for i, size in zip(range(500), sizes, strict=False):
            w.write(bytes([i % 256]) * size)
            if i % 50 == 49:
                message = r.read()
                assert len(set(message)) == 1
        left = len(r.read_many(1000))
        assert r.lost + left + 10 == 500 and ring.stat()["readers"][0]["lost"] == r.lost


# -- what it is --------------------------------------------------------------------------------


def test_a_ring_is_made_by_create_and_attach_only():
    with pytest.raises(TypeError, match="make a StreamRing with"):
        StreamRing()
    with pytest.raises(ValueError, match="readers must be 1 to 64, not 65"), nothing_left():
        StreamRing.create(PAGE, "i4", readers=65)
    with pytest.raises(ValueError, match="on_full must be one of"), nothing_left():
        StreamRing.create(PAGE, "i4", on_full="wait")
    with pytest.raises(ValueError, match="capacity must be 4 bytes"):
        StreamRing.create(3, "i4")
    with pytest.raises(ValueError, match="fill_limit must be"):
        StreamRing.create(PAGE, "i4", fill_limit=PAGE + 1)


def test_counters_are_for_anybody(ring):
    with ring.writer() as w, ring.reader() as r:
        written(w, *range(100))
        read(r, 40)
        told = ring.stat()
        assert told["items"] == 100 and told["bytes"] == 400 and told["state"] == "alive"
        (reader,) = told["readers"]
        assert reader["items"] == 40 and reader["lag"] == 60 and reader["high_water"] == 100
        with pytest.raises(TimeoutError):
            r.peek(61, timeout=0.02)
        assert ring.stat()["readers"][0]["blocked"] >= 0.02
    assert ring.stat()["closed"] and ring.stat()["readers"][0]["state"] == "left"


def test_the_ring_lends_its_data_twice_in_a_row(ring):
    with ring.writer() as w:
        written(w, 77)
        with memoryview(ring) as view:
            assert view.nbytes == 2 * PAGE == ring.mapped_size and not view.readonly
            assert (view.shape, view.strides) == ((2 * PAGE,), (1,))
            assert view[:4] == view[PAGE : PAGE + 4] == array.array("i", [77]).tobytes()
            with pytest.raises(BufferError, match="live view"):
                ring.close()
    assert sum(ring.placement().nodes.values()) == 1


def test_a_plain_ring_answers_what_kind_it_is():
    with MessageRing.create(PAGE) as made, made.handle() as handle, Ring.attach(handle) as found:
        assert type(found) is MessageRing and repr(found).startswith("<MessageRing of 4 KiB")


def test_a_ring_lies_where_it_was_asked_to():
    with StreamRing.create("1MiB", "u1", node=0) as ring, ring.writer() as w, ring.reader() as r:
        assert dict(ring.placement().nodes) == {0: 256}
        w.write(bytes(1 << 20))
        assert r.skip() == 1 << 20
    with pytest.raises(OSError, match="999"), nothing_left():
        StreamRing.create("1MiB", "u1", node=999)


def test_a_ring_on_transparent_huge_pages_is_mirrored_too():
    with StreamRing.create("1MiB", "u4", pages="thp") as ring, ring.writer() as w, ring.reader() as r:
        assert ring.data_size == 2 << 20 and ring.limit == 1 << 18 and ring.backing.pages == "thp"
        for _ in range(5):
            w.write(np.arange(200_000, dtype="u4"))
            with r.peek(200_000) as window:
                assert (np.asarray(window) == np.arange(200_000)).all()


def test_a_locked_ring_is_not_swapped():
    def locked():
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmLck"))

    before = locked()
    with StreamRing.create("64KiB", "u1", lock=True) as ring:
        assert locked() - before >= 64 << 10
        with ring.writer() as w, ring.reader():
            w.write(b"x")
    assert locked() == before
