"""register(): one range in one call, counted, never undone for others, and nothing left behind."""

import errno
import gc
import threading
from mmap import mmap

import numpy
import pytest
from counts import nothing_left
from memory import PAGE

from zerosys import Mapping, PlacementError, SharedRegion, cuda, pinned
from zerosys.cuda import pins
from zerosys.cuda.counters import counters
from zerosys.errors import CudaError, NotRegisterable

SIZE = 64 * PAGE


@pytest.fixture
def region():
    with SharedRegion.create(SIZE, pages="base") as made:
        yield made


# -- the device --------------------------------------------------------------------------------


def in_a_fresh_thread(call):
    """What *call* returns or raises on a thread that has no context."""
    seen = []

    def run():
        try:
            seen.append(call())
        except Exception as error:
            seen.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return seen[0]


def test_without_a_current_context_the_error_says_device_0(gpu, region):
    error = in_a_fresh_thread(lambda: cuda.register(region))
    assert isinstance(error, CudaError) and "device=0" in str(error)
    assert region.pinned == 0


def test_a_device_that_is_named_is_used_and_the_thread_left_as_it_was(gpu, region):
    def work():
        with cuda.register(region, device=0) as made:
            return made.pinned, gpu.watched.inner.current()

    assert in_a_fresh_thread(work) == (SIZE, None)


@pytest.mark.parametrize("device", [0, "cuda:0", "cuda"])
def test_a_device_has_a_number_or_a_name(gpu, region, device):
    with cuda.register(region, device) as made:
        assert made.device == 0


@pytest.mark.parametrize(
    ("device", "error", "words"),
    [(99, ValueError, "not 99"), (-1, ValueError, "not -1"), ("gpu", ValueError, "'gpu'"),
     (1.5, TypeError, "1.5"), (True, TypeError, "True")],
)  # fmt: skip
def test_a_device_that_is_none_is_refused(gpu, region, device, error, words):
    with pytest.raises(error, match=words):
        cuda.register(region, device)
    assert region.pinned == 0 and region.views == 0


# -- what is registered ------------------------------------------------------------------------


def test_a_region_is_registered_by_one_call_and_says_so(gpu, region):
    with cuda.register(region) as made:
        assert gpu.watched.calls["host_register"] == 1
        assert (made.pinned, made.size, region.pinned) == (SIZE, SIZE, SIZE)
        assert made.ranges == ((region.address, SIZE),)
        assert made.registered_by == "us" and not made.read_only and not made.closed
        assert made.device_pointer() == gpu.watched.inner.device_pointer(region.address)
        assert made.device_pointer(0) == made.device_pointer()
    assert made.closed and region.pinned == 0
    assert gpu.unregister(region.address) == 713


def test_it_is_a_lease(gpu, region):
    made = cuda.register(region)
    with pytest.raises(BufferError, match="1 live view"):
        region.close()
    assert region.pinned == SIZE
    made.close()
    made.close()
    region.close()


def test_a_region_left_under_a_registration_is_freed_after_it(gpu):
    with nothing_left():
        with SharedRegion.create(SIZE) as region:
            made = cuda.register(region)
        address = region.mapped_size and made.address
        assert region.closed
        made.close()
        assert gpu.unregister(address) == 713


def test_a_hundred_dropped_ones_leave_nothing_registered(gpu):
    with nothing_left():
        for _ in range(100):
            region = SharedRegion.create(4 * PAGE)
            made = cuda.register(region)
            del region, made
        gc.collect()
    assert pinned.ranges() == []
    assert gpu.watched.calls["host_unregister"] == 100


def test_the_collector_may_drop_one_at_any_moment(gpu, region):
    """On the thread that counts a view, or makes a registration: their locks are held then."""
    for lock in (counters.lock, pins.lock):
        cycle = [cuda.register(region)]
        cycle.append(cycle)
        with lock:
            del cycle
            gc.collect()
        assert region.pinned == 0


def test_a_mirror_is_registered_whole(gpu, region):
    with Mapping(region, SIZE, mirror=True) as mirror, cuda.register(mirror) as made:
        assert made.pinned == 2 * SIZE and gpu.watched.calls["host_register"] == 1
        with memoryview(mirror) as view, cuda.DeviceView(view[SIZE // 2 : SIZE + SIZE // 2]) as seam:
            assert not seam.staged and seam.nbytes == SIZE


@pytest.mark.parametrize("buffer", [numpy.zeros(5000), bytearray(70000), numpy.ones((3, 5), "c8")], ids=str)
def test_any_contiguous_buffer_is_registered(gpu, buffer):
    with memoryview(buffer) as view:
        size = view.nbytes
    with cuda.register(buffer) as made:
        assert made.pinned == size
        with cuda.DeviceView(buffer, "inout") as there:
            assert not there.staged and there.nbytes == size


def test_a_bytearray_cannot_be_resized_meanwhile(gpu):
    buffer = bytearray(PAGE)
    with cuda.register(buffer), pytest.raises(BufferError):
        buffer.append(1)
    buffer.append(1)


def test_a_buffer_with_gaps_is_refused(gpu):
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        cuda.register(numpy.zeros((8, 8))[:, :4])


def test_an_empty_buffer_is_no_call_and_no_error(gpu):
    with cuda.register(bytearray()) as made:
        assert made.pinned == 0 and made.device_pointer() == 0 and made.ranges == ()
    assert gpu.watched.calls["host_register"] == 0


# -- again, and by others ----------------------------------------------------------------------


def test_registering_again_is_counted(gpu, region):
    outer = cuda.register(region)
    with cuda.register(region) as inner:
        assert inner.registered_by == "us" and inner.device_pointer() == outer.device_pointer()
    assert region.pinned == SIZE
    outer.close()
    assert region.pinned == 0
    assert gpu.watched.calls["host_register"] == gpu.watched.calls["host_unregister"] == 1


def test_one_that_many_threads_close_is_closed_once(gpu, region):
    outer = cuda.register(region)
    for _ in range(50):
        inner = cuda.register(region)
        threads = [threading.Thread(target=inner.close) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert region.pinned == SIZE and outer._pin.count == 1
    outer.close()
    assert region.pinned == 0


def test_the_outer_one_may_end_first(gpu, region):
    outer, inner = cuda.register(region), cuda.register(region)
    outer.close()
    assert region.pinned == SIZE and inner.device_pointer()
    inner.close()
    assert region.pinned == 0


def test_a_part_of_what_is_registered_is_counted_too(gpu, region):
    array = region.array("f4", (4, -1))[1]
    with cuda.register(region) as whole, cuda.register(array) as part:
        assert part.device_pointer() - whole.device_pointer() == SIZE // 4
        assert part.pinned == SIZE // 4
    del array


def test_what_another_registered_is_used_and_never_undone(gpu, region):
    assert gpu.register(region.address, SIZE) == 0
    with cuda.register(region) as made:
        assert made.registered_by == "other" and made.pinned == SIZE
        assert made.device_pointer() == gpu.watched.inner.device_pointer(region.address)
    assert gpu.watched.calls["host_unregister"] == 0
    assert gpu.unregister(region.address) == 0


def test_a_part_of_what_another_registered_is_used(gpu, region):
    assert gpu.register(region.address, SIZE) == 0
    array = region.array("u1", SIZE // 2)
    with cuda.register(array) as made:
        assert made.registered_by == "other" and made.pinned == SIZE // 2
    del array
    assert gpu.unregister(region.address) == 0


def test_what_another_registered_in_part_is_an_error_that_lists_ours(gpu, region):
    assert gpu.register(region.address, SIZE // 2) == 0
    with SharedRegion.create(PAGE) as mine, cuda.register(mine) as known:
        with pytest.raises(NotRegisterable, match=f"own registrations: {known.address:#x}") as refused:
            cuda.register(region)
        assert refused.value.code == 712
    assert region.pinned == 0 and region.views == 0
    assert gpu.unregister(region.address) == 0


def test_what_we_registered_in_part_is_an_error_that_lists_it(gpu, region):
    array = region.array("u1", SIZE // 2)
    with cuda.register(array), pytest.raises(NotRegisterable, match=f"{region.address:#x} to "):
        cuda.register(region)
    del array


# -- what cannot be registered -----------------------------------------------------------------


def test_read_only_memory_is_registered_for_reading(gpu, region):
    with SharedRegion.attach(region.fileno(), read_only=True) as reader, cuda.register(reader) as made:
        assert made.read_only
        with pytest.raises(ValueError, match="may only be read"):
            cuda.DeviceView(reader, "out")
        with pytest.raises(NotRegisterable, match="read-only"):
            cuda.register(reader, read_only=False)
    with SharedRegion.attach(region.fileno(), read_only=True) as reader:
        with pytest.raises(NotRegisterable, match="read_only=False contradicts"):
            cuda.register(reader, read_only=False)


def test_writable_memory_is_registered_for_reading_where_that_is_asked(gpu, region):
    with cuda.register(region, read_only=True) as made:
        assert made.read_only
        with pytest.raises(ValueError, match="may only be read"):
            cuda.DeviceView(region, "inout")


def test_a_file_that_is_not_memory_is_named_and_stays_usable(gpu, tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        file.truncate(SIZE)
        with mmap(file.fileno(), SIZE) as mapped:
            with pytest.raises(NotRegisterable, match="belong to a file system") as refused:
                cuda.register(mapped)
            assert "DeviceView" in str(refused.value) and refused.value.code == 1
            mapped[0] = 1
            with cuda.DeviceView(mapped) as view:
                assert view.staged


def test_a_private_read_only_file_is_refused_before_the_driver_hangs(gpu, tmp_path):
    (tmp_path / "file").write_bytes(bytes(SIZE))
    with open(tmp_path / "file", "rb") as file:
        with Mapping(file, SIZE, protection=1, flags=2) as mapped:
            with pytest.raises(NotRegisterable, match="private and read-only"):
                cuda.register(mapped)
    assert gpu.watched.calls["host_register"] == 0


def test_without_strict_the_refusal_is_told_by_the_result(gpu, tmp_path, region):
    gpu.watched.refusals["host_register"] = [801]
    with cuda.register(region, strict=False) as made:
        assert made.pinned == region.pinned == 0 and made.registered_by is None
        assert made.refusal.code == 801
        with pytest.raises(NotRegisterable):
            made.device_pointer()
    assert region.views == 0


@pytest.mark.parametrize("code", [1, 2, 801])
def test_a_refusal_leaves_nothing_held_and_nothing_latched(gpu, region, code):
    gpu.watched.refusals["host_register"] = [code]
    with pytest.raises(NotRegisterable) as refused:
        cuda.register(region)
    assert refused.value.code == code
    assert (region.pinned, region.views, gpu.peek()) == (0, 0, 0)
    with cuda.register(region) as made:
        assert made.pinned == SIZE


@pytest.mark.parametrize("call", ["device_pointer", "attribute"])
def test_a_failure_after_registering_undoes_it(gpu, region, call):
    gpu.watched.refusals[call] = [0, 0, 999] if call == "attribute" else [999]
    with pytest.raises(CudaError):
        cuda.register(region)
    assert (region.pinned, region.views) == (0, 0)
    assert gpu.unregister(region.address) == 713


def test_an_error_that_others_latched_stays_theirs(gpu, region):
    gpu.latch()
    with cuda.register(region):
        pass
    gpu.watched.refusals["host_register"] = [2]
    with pytest.raises(NotRegisterable):
        cuda.register(region)
    assert gpu.peek() == 713
    gpu.take()


# -- sizes that the driver refuses -------------------------------------------------------------


@pytest.fixture
def small_chunks(gpu, monkeypatch):
    gpu.watched.largest = SIZE // 2 + 1
    monkeypatch.setattr(pins, "LARGEST", SIZE // 2 + 1)
    monkeypatch.setattr(pins, "CHUNK", SIZE // 4)


def test_a_refused_size_is_registered_in_chunks_and_copies_are_split(gpu, region, small_chunks):
    source = region.array("u1")
    source[:] = numpy.arange(SIZE) % 251
    with cuda.register(region) as made, gpu.memory(SIZE) as device:
        assert made.ranges == tuple((region.address + i * SIZE // 4, SIZE // 4) for i in range(4))
        assert gpu.copy(device, region.address, SIZE) == 1
        there = Device(device, SIZE)
        assert cuda.copy(there, region) == SIZE
        back = numpy.zeros(SIZE, "u1")
        assert cuda.copy(back, there) == SIZE
        assert (back == source).all()
        source[:] = 0
        assert cuda.copy(region, there) == SIZE
        assert (back == source).all()
    del source


class Device:
    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3,
        }  # fmt: skip


def test_the_third_chunk_refused_undoes_the_first_two(gpu, region, small_chunks):
    gpu.watched.refusals["host_register"] = [0, 0, 0, 2]
    with pytest.raises(NotRegisterable, match=f"chunk 3 of 4: .* at {region.address + SIZE // 2:#x}"):
        cuda.register(region)
    assert (region.pinned, region.views, gpu.peek()) == (0, 0, 0)
    for i in range(4):
        assert gpu.unregister(region.address + i * SIZE // 4) == 713


def test_a_small_size_that_is_refused_is_not_cut(gpu, region):
    gpu.watched.refusals["host_register"] = [2]
    with pytest.raises(NotRegisterable):
        cuda.register(region)
    assert gpu.watched.calls["host_register"] == 1


# -- placement ---------------------------------------------------------------------------------


def test_pinned_pages_do_not_move(gpu):
    import zerosys

    with SharedRegion.create(SIZE, node=0) as region:
        with cuda.register(region):
            for move in (lambda: region.move_to(0), lambda: zerosys.move_to(region, 0)):
                with pytest.raises(PlacementError, match="registered with cuda:0") as refused:
                    move()
                assert refused.value.errno == errno.EBUSY
        region.move_to(0)
        assert region.verify().ok


def test_pages_that_pinning_moved_are_an_error_and_nothing_stays_registered(gpu, monkeypatch):
    """As pages of movable or CXL zones are moved: the second look finds them on another node."""
    from dataclasses import replace

    from zerosys import machine

    with SharedRegion.create(SIZE, node=0) as region:
        found = region.verify()
        moved = replace(found, ok=False, misplaced=1, reason="1 pages lie on node 1")
        monkeypatch.setattr(machine, "node_ids", lambda: [0, 1])
        monkeypatch.setattr(SharedRegion, "verify", lambda self: moved)
        with pytest.raises(PlacementError, match="after registering, 1 pages lie on node 1"):
            cuda.register(region)
        assert region.pinned == 0
        with pytest.warns(UserWarning, match="after registering"):
            made = cuda.register(region, strict=False)
        assert region.pinned == SIZE
        made.close()


def test_threads_that_register_one_region_share_one_call(gpu, region):
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        for _ in range(50):
            with cuda.register(region, 0) as made:
                assert made.pinned == SIZE
        return True

    outer = cuda.register(region)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outer.close()
    assert region.pinned == 0 and gpu.watched.calls["host_register"] == 1
