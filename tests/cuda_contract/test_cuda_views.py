"""DeviceView: in place where it can be, staged where it must, counted, and never read before it is done."""

import gc

import numpy
import pytest
from counts import nothing_left
from memory import PAGE

from zerosys import SharedRegion, cuda
from zerosys.errors import NotRegisterable

SIZE = 16 * PAGE


@pytest.fixture
def region():
    with SharedRegion.create(SIZE, pages="base") as made:
        yield made


class OnDevice:
    """Device memory as a library tells of it."""

    def __init__(self, pointer, size, read_only=False, **more):
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (pointer, read_only), "version": 3, **more,
        }  # fmt: skip


def test_registered_memory_is_used_in_place(gpu, region):
    before = cuda.stats()
    with cuda.register(region) as made:
        array = region.array("f4", (4, -1))
        with cuda.DeviceView(array[2], "inout") as view:
            assert not view.staged and view.nbytes == SIZE // 4
            assert view.pointer == made.device_pointer() + SIZE // 2
            told = view.__cuda_array_interface__
            assert told["shape"] == (SIZE // 16,) and told["typestr"] == "<f4"
            assert told["data"] == (view.pointer, False)
        del array
    assert cuda.stats() - before == cuda.Stats(1, 0, 0, 0)


def test_what_the_device_writes_in_place_is_there_after_the_commit(gpu, region):
    with cuda.register(region), cuda.DeviceView(region, "out") as view:
        gpu.fill(view.pointer, 7, view.nbytes)
    assert (region.array("u1") == 7).all()


def test_other_memory_is_staged_both_ways_and_counted(gpu):
    host = numpy.arange(SIZE, dtype="u1")
    before = cuda.stats()
    with cuda.DeviceView(host, "inout") as view:
        assert view.staged and view.pointer
        gpu.fill(view.pointer, 9, SIZE // 2)
    assert (host[: SIZE // 2] == 9).all()
    assert (host[SIZE // 2 :] == numpy.arange(SIZE, dtype="u1")[SIZE // 2 :]).all()
    assert cuda.stats() - before == cuda.Stats(1, 1, SIZE, SIZE)


def test_access_says_which_way_is_copied(gpu):
    host = numpy.full(SIZE, 5, "u1")
    before = cuda.stats()
    with cuda.DeviceView(host, "in") as view:
        gpu.fill(view.pointer, 1, SIZE)
    assert (host == 5).all()
    with cuda.DeviceView(host, "out") as view:
        gpu.fill(view.pointer, 2, SIZE)
    assert (host == 2).all()
    assert cuda.stats() - before == cuda.Stats(2, 2, SIZE, SIZE)


@pytest.mark.parametrize("registered", [True, False])
def test_commit_waits_for_its_own_stream(gpu, region, registered):
    stream = gpu.stream()
    made = cuda.register(region) if registered else None
    view = cuda.DeviceView(region, "out", stream)
    gpu.fill(view.pointer, 3, SIZE, stream)
    assert view.__cuda_array_interface__["stream"] == stream
    view.commit()
    assert view.closed and (region.array("u1") == 3).all()
    view.commit()
    if made:
        made.close()


def test_an_exception_copies_nothing_back(gpu):
    host = numpy.zeros(SIZE, "u1")
    before = cuda.stats()
    with pytest.raises(KeyError):
        with cuda.DeviceView(host, "out") as view:
            gpu.fill(view.pointer, 8, SIZE)
            raise KeyError
    assert not host.any() and (cuda.stats() - before).bytes_out == 0


def test_device_memory_is_used_where_it_is(gpu):
    with gpu.memory(SIZE) as pointer, cuda.DeviceView(OnDevice(pointer, SIZE), "inout") as view:
        assert (view.pointer, view.staged, view.nbytes) == (pointer, False, SIZE)


def test_a_view_keeps_the_device_memory_alive(gpu):
    import weakref

    with gpu.memory(SIZE) as pointer:
        lender = OnDevice(pointer, SIZE)
        gone = weakref.ref(lender)
        view = cuda.DeviceView(lender)
        del lender
        assert gone() is not None
        view.commit()
        assert gone() is None


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"strides": (2,)}, "contiguous"),
        ({"strides": (-1,)}, "contiguous"),
        ({"strides": (1, 1)}, "strides"),
        ({"mask": object()}, "mask"),
        ({"strides": (1,)}, None),
        ({"strides": None, "mask": None}, None),
    ],
)
def test_device_memory_must_be_contiguous_and_whole(gpu, more, error):
    with gpu.memory(SIZE) as pointer:
        if error:
            with pytest.raises(BufferError, match=error):
                cuda.DeviceView(OnDevice(pointer, SIZE, **more))
        else:
            cuda.DeviceView(OnDevice(pointer, SIZE, **more)).commit()


def test_managed_memory_is_used_in_place(gpu):
    import ctypes

    pointer = gpu.managed(SIZE)
    host = (ctypes.c_ubyte * SIZE).from_address(pointer)
    with cuda.DeviceView(host, "out") as view:
        assert not view.staged and view.pointer == pointer
        gpu.fill(view.pointer, 4, SIZE)
    assert bytes(host) == b"\4" * SIZE


def test_memory_that_another_registered_is_used_in_place(gpu, region):
    assert gpu.register(region.address, SIZE) == 0
    with cuda.DeviceView(region) as view:
        assert not view.staged
    assert gpu.unregister(region.address) == 0


def test_memory_that_another_registered_in_part_is_staged(gpu, region):
    """One copy across the border would be refused, so the bytes in and out are cut there."""
    assert gpu.register(region.address, SIZE // 2) == 0
    region.array("u1")[:] = 6
    with cuda.DeviceView(region, "inout") as view:
        assert view.staged
        gpu.fill(view.pointer, 1, PAGE)
    assert (region.array("u1")[:PAGE] == 1).all() and (region.array("u1")[PAGE:] == 6).all()
    assert gpu.unregister(region.address) == 0


def test_memory_that_we_registered_in_part_is_staged(gpu, region):
    array = region.array("u1", SIZE // 2)
    region.array("u1")[:] = 6
    with cuda.register(array), cuda.DeviceView(region, "inout") as view:
        assert view.staged
        gpu.fill(view.pointer, 1, PAGE)
    assert (region.array("u1")[:PAGE] == 1).all() and (region.array("u1")[PAGE:] == 6).all()
    del array


def test_strict_refuses_before_anything_is_copied(gpu):
    before = cuda.stats()
    host = bytearray(SIZE)
    with pytest.raises(NotRegisterable, match="strict=True"):
        cuda.DeviceView(host, strict=True)
    assert cuda.stats() == before
    host.append(1)  # no view of it was left


def test_expect_no_staging_fails_a_block_that_staged(gpu, region):
    with cuda.register(region), cuda.expect_no_staging():
        cuda.DeviceView(region).commit()
    with pytest.raises(AssertionError, match=f"1 of 2 DeviceViews were staged: {SIZE} bytes"):
        with cuda.register(region), cuda.expect_no_staging():
            cuda.DeviceView(region).commit()
            cuda.DeviceView(bytearray(SIZE)).commit()


def test_expect_no_staging_never_hides_an_exception(gpu):
    with pytest.raises(KeyError), cuda.expect_no_staging():
        cuda.DeviceView(bytearray(SIZE)).commit()
        raise KeyError


@pytest.mark.parametrize("access", ["out", "inout"])
def test_writing_to_bytes_is_refused(gpu, access):
    with pytest.raises(ValueError, match="may only be read"):
        cuda.DeviceView(b"abc", access)


def test_another_access_is_refused(gpu):
    with pytest.raises(ValueError, match="'read'"):
        cuda.DeviceView(bytearray(8), "read")


def test_an_empty_buffer_is_a_view_of_nothing(gpu):
    with cuda.DeviceView(bytearray(), "inout") as view:
        assert view.nbytes == 0 and not view.staged


def test_a_registration_stays_under_a_view(gpu, region):
    made = cuda.register(region)
    view = cuda.DeviceView(region)
    with pytest.raises(BufferError, match="1 live DeviceView"):
        made.close()
    assert region.pinned == SIZE
    view.commit()
    made.close()
    assert region.pinned == 0


def test_the_last_view_unregisters_after_a_with(gpu, region):
    with cuda.register(region):
        view = cuda.DeviceView(region)
    assert region.pinned == SIZE
    view.commit()
    assert region.pinned == 0 and gpu.unregister(region.address) == 713


def test_a_dropped_view_waits_for_its_stream_and_says_so(gpu, region, caplog):
    with cuda.register(region):
        view = cuda.DeviceView(region, "out")
        gpu.fill(view.pointer, 5, SIZE)
        del view
        gc.collect()
        assert (region.array("u1") == 5).all()
    assert "dropped without commit()" in caplog.text


def test_a_thousand_staged_views_leave_nothing(gpu):
    host = numpy.zeros(SIZE, "u1")
    cuda.DeviceView(host, "inout").commit()
    calls = gpu.watched.calls["alloc"]
    with nothing_left():
        for _ in range(1000):
            with cuda.DeviceView(host, "inout"):
                pass
    assert gpu.watched.calls["alloc"] == calls


def test_a_failed_copy_in_gives_the_block_back(gpu):
    host = bytearray(SIZE)
    gpu.watched.refusals["copy"] = [999]
    with pytest.raises(cuda.CudaError):
        cuda.DeviceView(host)
    host.append(1)
    del host[-1]
    calls = gpu.watched.calls["alloc"]
    cuda.DeviceView(host).commit()
    assert gpu.watched.calls["alloc"] == calls


def test_a_failed_copy_back_can_be_tried_again(gpu):
    host = numpy.zeros(SIZE, "u1")
    view = cuda.DeviceView(host, "out")
    gpu.fill(view.pointer, 2, SIZE)
    gpu.watched.refusals["copy"] = [999]
    with pytest.raises(cuda.CudaError):
        view.commit()
    assert not view.closed
    view.commit()
    assert (host == 2).all()


# -- streams and events of any library ---------------------------------------------------------


class Protocol:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


class Torch:
    def __init__(self, handle):
        self.cuda_stream = handle


class CuPy:
    def __init__(self, handle):
        self.ptr = handle


@pytest.mark.parametrize("wrap", [int, Protocol, Torch, CuPy])
def test_a_stream_of_any_library_is_taken(gpu, region, wrap):
    handle = gpu.stream()
    with cuda.register(region):
        with cuda.DeviceView(region, "out", wrap(handle)) as view:
            gpu.fill(view.pointer, 1, SIZE, handle)
        assert (region.array("u1") == 1).all()
        fence = cuda.Fence(wrap(handle))
        gpu.finish(handle)
        fence.wait(5)
        assert fence.done()


@pytest.mark.parametrize("stream", ["0", 1.5, True, object()])
def test_what_is_no_stream_is_refused(gpu, stream):
    with pytest.raises(TypeError, match="stream must be"):
        cuda.Fence(stream)


class Event:
    happened = False

    def query(self):
        return self.happened


def test_an_event_of_any_library_is_asked(gpu):
    event = Event()
    fence = cuda.Fence(event)
    assert not fence.done()
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        fence.wait(0.01)
    event.happened = True
    fence.wait()
    assert fence.done()


# -- copies ------------------------------------------------------------------------------------


def test_a_copy_goes_both_ways_and_says_how_much(gpu, region):
    source = numpy.random.default_rng(1).integers(0, 256, SIZE, "u1")
    region.array("u1")[:] = source
    back = numpy.zeros(SIZE + 5, "u1")
    with cuda.register(region), gpu.memory(SIZE) as pointer:
        assert cuda.copy(OnDevice(pointer, SIZE), region) == SIZE
        assert cuda.copy(back, OnDevice(pointer, SIZE), gpu.stream()) == SIZE
    assert (back[:SIZE] == source).all() and not back[SIZE:].any()


def test_a_copy_across_two_registrations_of_ours_is_cut(gpu, region):
    source = numpy.random.default_rng(2).integers(0, 256, SIZE, "u1")
    region.array("u1")[:] = source
    first, second = region.array("u1", SIZE // 2), region.array("u1", SIZE // 2, SIZE // 2)
    back = numpy.zeros(SIZE, "u1")
    with cuda.register(first), cuda.register(second), gpu.memory(SIZE) as pointer:
        assert gpu.copy(pointer, region.address, SIZE) == 1
        assert cuda.copy(OnDevice(pointer, SIZE), region) == SIZE
        assert cuda.copy(back, OnDevice(pointer, SIZE)) == SIZE
    assert (back == source).all()
    del first, second


def test_a_copy_that_does_not_fit_or_may_not_be_written_is_refused(gpu):
    with gpu.memory(SIZE) as pointer:
        with pytest.raises(ValueError, match="do not fit"):
            cuda.copy(bytearray(SIZE - 1), OnDevice(pointer, SIZE))
        with pytest.raises(ValueError, match="only be read"):
            cuda.copy(bytes(SIZE), OnDevice(pointer, SIZE))
        assert cuda.copy(OnDevice(pointer, SIZE), b"") == 0


def test_mapped_and_staged_give_the_same_bytes(gpu, region):
    import hashlib

    source = numpy.random.default_rng(3).integers(0, 256, SIZE, "u1")
    plain = source.copy()
    region.array("u1")[:] = source
    hashes = set()
    with cuda.register(region):
        for memory in (region.array("u1"), plain):
            with cuda.DeviceView(memory, "inout") as view:
                gpu.fill(view.pointer + PAGE, 77, PAGE)
            hashes.add(hashlib.sha256(memory.tobytes()).hexdigest())
        del memory
    source[PAGE : 2 * PAGE] = 77
    assert hashes == {hashlib.sha256(source.tobytes()).hexdigest()}


def test_a_thread_without_a_context_is_told_what_to_pass(gpu, region):
    from test_cuda_register import in_a_fresh_thread

    def work():
        host = numpy.ones(SIZE, "u1")
        try:
            cuda.DeviceView(host)
        except cuda.CudaError as error:
            assert "device=0" in str(error)
        else:
            return "no error"
        with cuda.DeviceView(host, "out", device=0) as view:
            gpu.watched.inner.push(gpu.watched.inner.primary(0))
            gpu.fill(view.pointer, 3, SIZE)
            gpu.watched.inner.pop()
        with cuda.register(region, 0), cuda.DeviceView(region, "out") as view:
            assert not view.staged
        with cuda.DevicePool(0) as pool, pool.acquire(SIZE) as there:
            cuda.copy(there, host)
            cuda.copy(region, there)
        return bool((region.array("u1") == 3).all()), gpu.watched.inner.current()

    assert in_a_fresh_thread(work) == (True, None)


# -- rings -------------------------------------------------------------------------------------


def test_windows_of_a_registered_ring_are_used_in_place_across_the_seam_too(gpu):
    from zerosys import StreamRing

    with StreamRing.create("64KiB", "u1") as ring, cuda.register(ring) as made:
        assert made.pinned == ring.mapped_size and gpu.watched.calls["host_register"] == 1
        writer, reader = ring.writer(), ring.reader()
        for step in range(5):  # the third window lies over the seam
            items = numpy.random.default_rng(step).integers(0, 256, 24 << 10, "u1")
            with writer.claim(len(items)) as window:
                numpy.asarray(window)[:] = items
            with reader.peek(len(items)) as window:
                with cuda.DeviceView(window, "in", strict=True) as view, gpu.memory(len(items)) as pointer:
                    assert gpu.copy(pointer, view.pointer, len(items)) == 0
                    back = numpy.zeros_like(items)
                    cuda.copy(back, OnDevice(pointer, len(items)))
            assert (back == items).all()
        reader.close()
        writer.close()


def test_a_ring_that_may_only_be_read_is_registered_for_reading(gpu):
    from zerosys import StreamRing

    with StreamRing.create("64KiB", "u1", name="cuda-reads") as ring:
        try:
            with StreamRing.attach("cuda-reads") as other, ring.writer() as writer, other.reader() as reader:
                with cuda.register(other) as made:
                    assert made.pinned == other.mapped_size and made.read_only
                    writer.write(numpy.full(100, 7, "u1"))
                    with reader.peek(100) as window, cuda.DeviceView(window, "in", strict=True) as view:
                        assert made.device_pointer() <= view.pointer
                        with gpu.memory(100) as pointer:
                            assert gpu.copy(pointer, view.pointer, 100) == 0
        finally:
            ring.unlink()


def test_ctrl_c_ends_a_wait_for_a_device(gpu):
    import signal

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            cuda.Fence(Event()).wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Busy:
    """Device memory that a stream is still at, as an array of CuPy's tells it."""

    def __init__(self, pointer, size, stream):
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3, "stream": stream,
        }  # fmt: skip


@pytest.mark.parametrize("taken_by", ["copy from", "copy to", "view"])
def test_device_memory_is_taken_after_the_stream_that_is_at_it(gpu, taken_by):
    theirs, ours = gpu.stream(), gpu.stream()
    host = numpy.full(SIZE, 1, "u1")
    with gpu.memory(SIZE) as pointer:
        gpu.fill(pointer, 7, SIZE, theirs)
        busy = Busy(pointer, SIZE, theirs)
        if taken_by == "copy from":
            cuda.copy(host, busy, ours)
            assert (host == 7).all()
        elif taken_by == "copy to":
            cuda.copy(busy, host, ours)
            gpu.finish(theirs)
            host[:] = 0
            cuda.copy(host, Busy(pointer, SIZE, None), ours)
            assert (host == 1).all()  # the copy came last
        else:
            with cuda.DeviceView(busy, "inout", ours) as view:
                gpu.fill(view.pointer, 9, SIZE, ours)
            cuda.copy(host, Busy(pointer, SIZE, None), ours)
            gpu.finish(theirs)
            cuda.copy(host, Busy(pointer, SIZE, None), ours)
            assert (host == 9).all()


@pytest.mark.parametrize("stream", [None, 0, 1, 2])
def test_the_default_streams_are_names_that_a_producer_may_use(gpu, stream):
    host = numpy.zeros(SIZE, "u1")
    with gpu.memory(SIZE) as pointer:
        gpu.fill(pointer, 7, SIZE)
        assert cuda.copy(host, Busy(pointer, SIZE, stream), gpu.stream()) == SIZE
        if stream is not None:
            assert (host == 7).all()
        gpu.finish(0)
