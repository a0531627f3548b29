"""A window as a numpy array: the ring's own bytes, wherever in it they lie, and a lease like any other."""

import gc
import os

import numpy as np
import pytest
from counts import nothing_left

from zerosys import MessageRing, StreamRing

PAGE = 4096


def ends(dtype, **words):
    ring = StreamRing.create(PAGE, dtype, **words)
    return ring, ring.writer(), ring.reader()


# 3, 24 and 1000 bytes do not divide the data: such items lie across its end.
@pytest.mark.parametrize("dtype", ["u1", "u8", "V3", ("u1", 24), ("f4", (2, 125)), ("u2", (2, 2))], ids=str)
def test_an_array_is_its_window_all_the_way_round(dtype):
    ring, w, r = ends(dtype)
    with ring, w, r:
        shape = ring.item_shape
        for turn in range(9):
            n = ring.limit * 3 // 4 or 1
            with w.claim(n) as window:
                filled = window.array
                assert filled.shape == (n, *shape) and filled.flags.writeable
                window.raw[:] = bytes([turn]) * window.nbytes
                assert set(filled.tobytes()) == {turn}
            with r.peek(n) as window:
                seen = window.array
                assert seen.shape == (n, *shape) and seen.dtype == ring.dtype
                assert seen.ctypes.data == np.frombuffer(window.raw, "u1").ctypes.data
                assert set(seen.tobytes()) == {turn}


def test_what_is_stored_in_a_claims_array_arrives():
    ring, w, r = ends("i4")
    with ring, w, r:
        for turn in range(100):
            with w.claim(30) as window:
                window.array[:] = range(turn, turn + 30)
            with r.peek(30) as window:
                assert window.array.tolist() == list(range(turn, turn + 30))


def test_a_readers_array_cannot_be_made_writable():
    ring, w, r = ends("i4")
    with ring, w, r:
        w.write(bytes(4))
        with r.peek(1) as window:
            array = window.array
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True


def test_a_message_is_an_array_of_its_bytes():
    with MessageRing.create(PAGE) as ring, ring.writer() as w, ring.reader() as r:
        for length in (1, 100, PAGE - 16, PAGE):
            w.write(sent := os.urandom(length))
            with r.peek() as window:
                assert window.array.tobytes() == sent


def test_the_array_of_a_dropped_claim_goes_nowhere():
    ring, w, r = ends("u1", on_full="drop")
    with ring, w, r:
        w.write(b"a" * PAGE)
        with w.claim(8) as window:
            window.array[:] = 7
            assert window.dropped and window.tobytes() == b"\7" * 8
        assert w.lost == 8
        with r.peek(PAGE) as window:
            assert set(window.array) == {ord("a")}


def test_an_array_keeps_its_memory_after_everything_else_is_closed():
    ring, w, r = ends("u1")
    with ring, w, r:
        w.write(b"a" * 8)
        window = r.peek(8)
        array = window.array
        window.release()
        r.close()
        w.close()
        with pytest.raises(BufferError, match="1 live view"):
            ring.close()
    assert array.tobytes() == b"a" * 8
    with pytest.raises(ValueError, match="closed"):
        _ = window.array


def test_a_window_of_a_ring_that_was_left_is_still_an_array():
    ring, w, r = ends("u1")
    with r, w:
        with ring:
            w.write(b"a" * 8)
        with r.peek(8) as window:
            assert window.array.tobytes() == b"a" * 8


def test_arrays_leave_nothing_behind_not_even_of_a_reader_that_nobody_closed():
    with nothing_left():
        for _ in range(50):
            ring, w, r = ends("u8")
            with ring, w:
                w.write(bytes(64))
                assert r.peek(8).array.sum() == 0
                del r
                gc.collect()
                assert ring.reader().slot == 0  # it was given back
