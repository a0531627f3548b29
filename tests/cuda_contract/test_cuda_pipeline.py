"""The pipeline: equal bytes, released when copied and not before, nothing lent after an error, any stream."""

import threading
from contextlib import contextmanager

import numpy
import pytest
from memory import PAGE

from zerosys import SharedRegion, StreamRing, cuda
from zerosys.errors import CudaError, NotRegisterable

SIZE = 8 * PAGE


@pytest.fixture
def copied(gpu):
    """A compute() that copies its input to its output on the device, and what it was called with."""

    def compute(source, target, stream):
        compute.seen.append((source, target, stream))
        if target is not None:
            gpu.watched.inner.copy(target.pointer, source.pointer, source.nbytes, int(stream))

    compute.seen = []
    return compute


class Window:
    """Lends an array as a ring's reader does, and notes how it was given back."""

    def __init__(self, array):
        self.array, self.after, self.released = array, None, 0

    def __buffer__(self, flags):
        return memoryview(self.array)

    def __dlpack__(self, **words):
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self):
        return (1, 0)

    def release(self, after=None):
        self.released += 1
        self.after = after
        self.passed_at_release = after is None or after.query()


@pytest.fixture
def buffers(gpu):
    """Seven registered inputs of random words, and as many outputs."""
    with SharedRegion.create(14 * SIZE) as region:
        words = region.array("u4", (14, -1))
        words[:7] = numpy.random.default_rng(1).integers(0, 1 << 32, (7, SIZE // 4), "u4")
        with cuda.register(region):
            yield words[:7], words[7:]


@pytest.mark.parametrize("depth", [1, 2, 3, 9])
def test_what_goes_in_comes_out_in_order(buffers, copied, depth):
    source, target = buffers
    with cuda.expect_no_staging():
        stats = cuda.Pipeline(source, copied, target, depth).run()
    assert (source == target).all()
    assert (stats.windows, stats.bytes_in, stats.bytes_out, stats.staged) == (7, 7 * SIZE, 7 * SIZE, 0)
    assert stats.seconds > 0 and all(0 <= share <= 1.5 for share in stats.busy)
    assert stats.overlap == pytest.approx(sum(stats.busy))
    taken, given, _ = copied.seen[0]
    assert (taken.shape, taken.typestr, given.nbytes) == ((SIZE // 4,), "<u4", SIZE)


def test_windows_are_given_back_by_an_event_and_never_before(gpu, buffers, copied):
    source, target = buffers
    windows = [Window(array) for array in source]
    cuda.Pipeline(windows, copied, target).run()
    for window in windows:
        assert window.released == 1 and window.after is not None and window.after.query()
        if gpu.kind == "double":  # whose streams stand still until they are asked
            assert not window.passed_at_release
    assert (source == target).all()


def test_no_more_than_depth_are_on_their_way(gpu, buffers, copied):
    source, target = buffers
    lent, most = [], []

    class Filled:
        def __init__(self, array):
            self.array = array
            lent.append(self)
            most.append(len(lent))

        def __buffer__(self, flags):
            return memoryview(self.array)

        def __dlpack__(self, **words):
            return self.array.__dlpack__(**words)

        def __dlpack_device__(self):
            return (1, 0)

        def commit(self):
            lent.remove(self)

    cuda.Pipeline(source, copied, map(Filled, target), depth=2).run()
    assert max(most) <= 2 and not lent and (source == target).all()
    if (
        gpu.kind == "double"
    ):  # whose work is done when it is asked for: a real one may be quicker than the next step
        assert max(most) == 2


def test_a_count_ends_it_and_it_goes_on(buffers, copied):
    source, target = buffers
    line = cuda.Pipeline(source, copied, target)
    assert line.run(3).windows == 3
    assert line.run().windows == 4
    assert (source == target).all()


def test_without_a_sink_nothing_comes_out(buffers, copied):
    stats = cuda.Pipeline(buffers[0], copied).run()
    assert (stats.windows, stats.bytes_out, stats.copy_out) == (7, 0, 0)
    assert all(target is None for _, target, _ in copied.seen)


def test_a_compute_that_raises_leaves_nothing_lent(gpu, buffers, copied):
    source, target = buffers
    windows = [Window(array) for array in source]

    def compute(taken, given, stream):
        copied(taken, given, stream)
        if len(copied.seen) == 4:
            raise RuntimeError("no more")

    gpu.watched.calls.clear()
    line = cuda.Pipeline(windows, compute, target)
    with pytest.raises(RuntimeError, match="no more"):
        line.run()
    assert [window.released for window in windows] == [1, 1, 1, 1, 0, 0, 0]
    assert (source[:3] == target[:3]).all() and not target[3].any()
    calls = gpu.watched.calls
    assert calls["alloc"] == calls["free"] and calls["stream_create"] == calls["stream_destroy"]
    assert line.run().windows == 3  # the rest
    assert (source[4:] == target[4:][:3]).all()


def test_an_interrupt_leaves_nothing_lent(buffers):
    source, target = buffers
    windows = [Window(array) for array in source]

    def compute(taken, given, stream):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cuda.Pipeline(windows, compute, target).run()
    assert [window.released for window in windows] == [1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "call", ["copy", "stream_create", "event_create", "event_record", "stream_wait", "alloc"]
)
def test_a_refused_call_leaves_nothing_lent(gpu, buffers, copied, call):
    source, target = buffers
    windows = [Window(array) for array in source]
    gpu.watched.refusals[call] = [0, 719] if call != "alloc" else [719]
    gpu.watched.calls.clear()
    with pytest.raises(CudaError, match="refused by the test"):
        cuda.Pipeline(windows, copied, target).run()
    calls = gpu.watched.calls
    for window in windows:
        assert window.released <= 1
    made = calls["stream_create"] - (call == "stream_create")
    assert made == calls["stream_destroy"]


# -- rings -----------------------------------------------------------------------------------------


@contextmanager
def two_rings(size):
    """A writer, the reader of it as another process has it, registered; the same of the sink's."""
    with StreamRing.create(size, "u4") as before, StreamRing.create(size, "u4") as after:
        with before.handle() as handle, StreamRing.attach(handle) as joined, cuda.register(joined):
            with before.writer() as writer, joined.reader() as source, after.reader() as reader:
                # A writer has a mapping of its own, which is the one that the ring shows from then on.
                with after.writer() as sink, cuda.register(after):
                    yield writer, source, sink, reader


def test_a_ring_is_carried_into_a_ring(gpu, copied):
    """The windows wrap round the seam, and the last is short."""
    words = numpy.random.default_rng(2).integers(0, 1 << 32, 50_000, "u4")
    found = []

    def consume():
        while window := reader.peek_some():
            with window:
                found.append(numpy.array(window))

    with two_rings(4 * SIZE) as (writer, source, sink, reader):
        producer = threading.Thread(target=lambda: (writer.write(words), writer.close()))
        consumer = threading.Thread(target=consume)
        producer.start()
        consumer.start()
        try:
            with cuda.expect_no_staging():
                stats = cuda.Pipeline(source, copied, sink, items=3000, timeout=20).run()
        finally:
            sink.close()
            producer.join()
            consumer.join()
    assert stats.windows == 17 and stats.bytes_in == stats.bytes_out == words.nbytes
    assert (numpy.concatenate(found) == words).all()


def test_a_slow_ring_is_delivered_before_it_is_waited_for(gpu, copied):
    with two_rings(4 * SIZE) as (writer, source, sink, reader):
        writer.write(numpy.arange(100, dtype="u4"))
        line = cuda.Pipeline(source, copied, sink, items=100, timeout=0.2, strict=True)
        with pytest.raises(TimeoutError):
            line.run()
        with reader.peek(100, 0) as window:
            assert (numpy.array(window) == numpy.arange(100)).all()


def test_a_result_may_be_shorter_than_its_input(gpu):
    """One word for each window: what a detector makes of a stream."""

    def first_word(taken, given, stream):
        gpu.watched.inner.copy(given.pointer, taken.pointer, 4, int(stream))

    with two_rings(SIZE) as (writer, source, sink, reader):
        writer.write(numpy.arange(1000, dtype="u4"))
        line = cuda.Pipeline(source, first_word, sink, items=100, out_items=lambda n: n // 100, strict=True)
        line.run(10)
        with reader.peek(10, 0) as window:
            assert numpy.array(window).tolist() == list(range(0, 1000, 100))


# -- slots, blocks, and memory that is none of these --------------------------------------------------


def test_slots_come_in_and_blocks_go_out(gpu, copied):
    with cuda.SlotPool.create(3, SIZE, device=0) as slots, cuda.HostPool() as pool:

        def source():
            for n in range(6):
                slot = slots.acquire(timeout=20)
                slot.array()[:] = n + 1
                yield slot
                del slot

        blocks = [pool.acquire(SIZE) for _ in range(6)]
        stats = cuda.Pipeline(source(), copied, blocks).run()
        assert stats.staged == 0
        for n, block in enumerate(blocks):
            assert (block.array("u1") == n + 1).all()
            block.release()
        copied.seen.clear()


def test_unregistered_memory_is_told_or_refused(gpu, copied):
    source = numpy.arange(SIZE, dtype="u1").reshape(2, -1)
    target = numpy.zeros_like(source)
    before = cuda.stats()
    assert cuda.Pipeline(source, copied, target).run().staged == 2 * SIZE
    assert (source == target).all()
    seen = cuda.stats() - before
    assert (seen.bytes_in, seen.bytes_out) == (SIZE, SIZE)
    windows = [Window(array) for array in source]
    with pytest.raises(NotRegisterable, match="strict=True"):
        cuda.Pipeline(windows, copied, target, strict=True).run()
    assert [window.released for window in windows] == [1, 0]


# -- streams ------------------------------------------------------------------------------------------


class Protocol:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


class Torch:
    def __init__(self, handle):
        self.cuda_stream = handle


class Cupy:
    def __init__(self, handle):
        self.ptr = handle


@pytest.mark.parametrize("kind", [int, Protocol, Torch, Cupy])
def test_any_stream_will_do(gpu, buffers, kind):
    source, target = buffers
    handles = [gpu.stream() for _ in range(3)]

    def compute(taken, given, stream):
        assert stream is three[1]
        gpu.watched.inner.copy(given.pointer, taken.pointer, taken.nbytes, handles[1])

    three = [kind(handle) for handle in handles]
    cuda.Pipeline(source, compute, target, streams=three).run()
    assert (source == target).all()


def test_arguments_that_make_no_sense_are_refused(gpu, copied):
    with pytest.raises(ValueError, match="depth must be at least 1"):
        cuda.Pipeline([], copied, depth=0)
    with pytest.raises(ValueError, match="three"):
        cuda.Pipeline([], copied, streams=[1, 2])
    with StreamRing.create(PAGE, "u1") as ring, ring.reader() as reader:
        with pytest.raises(ValueError, match="items="):
            cuda.Pipeline(reader, copied)


def test_a_sink_that_ends_first_is_an_error_and_the_rest_is_kept(buffers, copied):
    source, target = buffers
    windows = [Window(array) for array in source]
    with pytest.raises(ValueError, match="no buffer left"):
        cuda.Pipeline(windows, copied, target[:2]).run()
    assert (source[:2] == target[:2]).all()
    assert [window.released for window in windows] == [1, 1, 1, 0, 0, 0, 0]
