"""The pools: exact sizes, nothing freed on the way, a budget that says why."""

import gc
import resource
import threading

import numpy
import pytest
from counts import nothing_left
from memory import PAGE

from zerosys import SharedRegion, cuda
from zerosys.errors import NotReady

SIZE = 16 * PAGE


# -- host --------------------------------------------------------------------------------------


def test_a_block_is_registered_placed_and_shared(gpu):
    with cuda.HostPool(node=0) as pool, pool.acquire(SIZE) as block:
        region = block.region
        assert isinstance(region, SharedRegion) and region.pinned == SIZE and region.verify().ok
        assert block.pointer == gpu.watched.inner.device_pointer(region.address)
        array = block.array("f4", (4, -1))
        array[:] = 2
        with cuda.DeviceView(array, strict=True) as view:
            assert view.pointer == block.pointer
        with SharedRegion.attach(region.handle()) as other:
            assert (other.array("f4") == 2).all()
        del array


def test_a_block_that_came_back_is_used_again_without_a_call(gpu):
    with cuda.HostPool() as pool:
        pool.acquire(SIZE).release()
        calls = gpu.watched.calls.total()
        block = pool.acquire(SIZE)
        assert gpu.watched.calls.total() == calls
        assert pool.stats() == cuda.PoolStats(1, 1, 1, 0, 0, SIZE, 0)
        block.release()
        assert pool.stats() == cuda.PoolStats(1, 1, 0, 1, 0, SIZE, SIZE)


def test_sizes_are_rounded_to_pages_and_no_further(gpu):
    with cuda.HostPool() as pool:
        with pool.acquire(5 * PAGE - 3) as block:
            assert block.size == 5 * PAGE - 3 and block.region.mapped_size == 5 * PAGE
            assert len(block.view) == 5 * PAGE - 3
        with pool.acquire("20KiB") as block:
            assert block.size == 5 * PAGE
        assert pool.stats().held_bytes == 5 * PAGE and pool.stats().hits == 1


def test_warm_up_pays_before(gpu):
    with cuda.HostPool() as pool:
        pool.warm_up(SIZE, 3)
        made = gpu.watched.calls["host_register"]
        assert made == 3
        blocks = [pool.acquire(SIZE) for _ in range(3)]
        assert gpu.watched.calls["host_register"] == made and pool.stats().hits == 3
        for block in blocks:
            block.release()
        assert pool.trim() == 3 * SIZE
        assert pool.stats().held_bytes == 0 and gpu.watched.calls["host_unregister"] == 3


def test_a_block_under_a_view_does_not_come_back(gpu):
    with cuda.HostPool() as pool:
        block = pool.acquire(SIZE)
        view = block.view
        with pytest.raises(BufferError, match="1 live view"):
            block.release()
        assert not block.released
        view.release()
        block.release()
        block.release()
        assert block.released
        with pytest.raises(ValueError, match="given back"):
            _ = block.view


def test_a_block_left_under_a_view_goes_with_the_view(gpu):
    with nothing_left(), cuda.HostPool() as pool:
        with pool.acquire(SIZE) as block:
            array = block.array("u1")
        assert pool.stats().held_bytes == 0
        array[:] = 1
        del array


def test_a_dropped_block_is_given_back_to_the_system(gpu):
    with nothing_left(), cuda.HostPool() as pool:
        block = pool.acquire(SIZE)
        del block
        gc.collect()
        stats = pool.stats()
        assert (stats.in_use, stats.free, stats.held_bytes) == (0, 0, 0)


def test_a_block_waits_for_the_stream_it_is_used_on(gpu):
    stream = gpu.stream()
    with cuda.HostPool() as pool:
        block = pool.acquire(SIZE)
        first = block.pointer
        event = Event()
        block.release(after=event)
        assert pool.stats().waiting == 1
        second = pool.acquire(SIZE)
        assert second.pointer != first
        event.happened = True
        third = pool.acquire(SIZE)
        assert third.pointer == first
        gpu.fill(third.pointer, 1, SIZE, stream)
        third.release(after=stream)
        gpu.finish(stream)
        second.release()
        with pool.acquire(SIZE), pool.acquire(SIZE):
            assert pool.stats().misses == 2


class Event:
    happened = False

    def query(self):
        return self.happened


@pytest.mark.parametrize(
    ("words", "reason"),
    [({"budget": 2 * SIZE}, "the pool's budget of 128 KiB leaves 0 bytes: trim"),
     ({"share": 1e-9}, "the share of 0% of .* a larger share=")],
)  # fmt: skip
def test_a_budget_refuses_with_its_reasons_and_makes_nothing(gpu, words, reason):
    with cuda.HostPool(**words) as pool:
        held = [pool.acquire(SIZE) for _ in range(2)] if "budget" in words else []
        with nothing_left(), pytest.raises(OSError, match=reason) as refused:
            pool.acquire(SIZE)
        assert refused.value.errno == 12
        assert pool.stats().in_use == len(held)
        for block in held:
            block.release()


def test_every_reason_is_named(gpu):
    with cuda.HostPool(budget=PAGE, share=1e-9) as pool, pytest.raises(OSError, match=r"budget.*share"):
        pool.acquire(SIZE)


def test_the_limit_on_locked_memory_counts_where_it_holds(gpu, monkeypatch):
    from zerosys.cuda import budget

    monkeypatch.setattr(budget, "may_lock_all", lambda: False)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (SIZE, SIZE))
    with cuda.HostPool() as pool, pytest.raises(OSError, match=r"RLIMIT_MEMLOCK of 64 KiB .*ulimit -l"):
        pool.acquire(2 * SIZE)


def test_a_node_that_does_not_exist_is_an_error(gpu):
    with cuda.HostPool(node=63) as pool, pytest.raises(OSError, match="63"):
        pool.acquire(SIZE)


def test_a_refused_registration_makes_nothing(gpu):
    with cuda.HostPool() as pool:
        gpu.watched.refusals["host_register"] = [2]
        with nothing_left(), pytest.raises(cuda.NotRegisterable):
            pool.acquire(SIZE)
        assert pool.stats() == cuda.PoolStats(0, 0, 0, 0, 0, 0, 0)


def test_write_combined_memory_is_the_drivers_and_says_so(gpu):
    with pytest.raises(ValueError, match="cannot be placed"):
        cuda.HostPool(node=0, write_combined=True)
    with cuda.HostPool(write_combined=True) as pool:
        assert pool.write_combined
        block = pool.acquire(SIZE)
        assert block.region is None
        view = block.view
        view[:] = bytes(range(256)) * (SIZE // 256)
        with pytest.raises(BufferError):
            block.release()
        with cuda.DeviceView(view, strict=True) as there:
            assert there.pointer == block.pointer
        view.release()
        block.release()
        assert pool.trim() == SIZE
    assert gpu.watched.calls["host_free"] == 1 and gpu.watched.calls["host_register"] == 0


def test_a_closed_pool_makes_nothing_new_and_takes_blocks_back(gpu):
    pool = cuda.HostPool()
    block = pool.acquire(SIZE)
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        pool.acquire(SIZE)
    with nothing_left():
        pass
    block.release()
    assert pool.stats().held_bytes == 0


def test_threads_share_a_pool(gpu):
    with cuda.HostPool(device=0) as pool:
        pool.warm_up(SIZE, 4)
        wrong = []

        def work(number):
            for _ in range(200):
                with pool.acquire(SIZE) as block, block.view as view:
                    view[0] = number
                    if view[0] != number:
                        wrong.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = pool.stats()
        assert not wrong and (stats.in_use, stats.free, stats.misses, stats.hits) == (0, 4, 4, 800)


# -- device ------------------------------------------------------------------------------------


def test_device_memory_is_kept_and_not_freed_on_the_way(gpu):
    pool = cuda.DevicePool()
    first = pool.acquire(SIZE)
    pointer = first.pointer
    first.release()
    for _ in range(100):
        with pool.acquire(SIZE) as block:
            assert block.pointer == pointer
    assert (gpu.watched.calls["alloc"], gpu.watched.calls["free"]) == (1, 0)
    assert pool.trim() == SIZE and gpu.watched.calls["free"] == 1


def test_sizes_do_not_mix(gpu):
    with cuda.DevicePool() as pool:
        pool.acquire(SIZE).release()
        with pool.acquire(SIZE // 2):
            assert pool.stats().misses == 2


def test_device_blocks_tell_libraries_where_they_are(gpu):
    with cuda.DevicePool() as pool, pool.acquire(1000) as block:
        told = block.__cuda_array_interface__
        assert told["shape"] == (1000,) and told["data"] == (block.pointer, False)
        host = numpy.arange(1000, dtype="u4").view("u1")[:1000]
        back = numpy.zeros(1000, "u1")
        assert cuda.copy(block, host) == cuda.copy(back, block) == 1000
        assert (back == host).all()
    with pytest.raises(ValueError, match="given back"):
        _ = block.__cuda_array_interface__


def test_a_full_device_trims_before_it_refuses(gpu):
    with cuda.DevicePool() as pool:
        pool.acquire(SIZE).release()
        gpu.watched.refusals["alloc"] = [2]
        with pool.acquire(2 * SIZE):
            assert pool.stats().held_bytes == 2 * SIZE and gpu.watched.calls["free"] == 1
        pool.trim()
        gpu.watched.refusals["alloc"] = [2]
        with pytest.raises(cuda.CudaError) as refused:
            pool.acquire(SIZE)
        assert refused.value.code == 2


def test_a_dropped_device_block_is_freed(gpu):
    pool = cuda.DevicePool()
    block = pool.acquire(SIZE)
    del block
    gc.collect()
    assert gpu.watched.calls["free"] == 1 and pool.stats().held_bytes == 0


def test_a_fence_times_out(gpu):
    fence = cuda.Fence(Event())
    with pytest.raises(NotReady):
        fence.wait(0)


def test_a_fence_that_cannot_be_made_loses_no_event(gpu):
    cuda.Fence(0).wait(10)
    made = gpu.watched.calls["event_create"]
    for _ in range(5):
        gpu.watched.refusals["event_record"] = [400]
        with pytest.raises(cuda.CudaError, match="400"):
            cuda.Fence(0)
    cuda.Fence(0).wait(10)
    assert gpu.watched.calls["event_create"] == made


class Lost:
    """What the failure of a stream makes of its events: whoever asks is told, again and again."""

    def query(self):
        raise RuntimeError("the device is lost")


def test_a_pool_is_closed_whole_whatever_a_device_says(gpu):
    pool = cuda.DevicePool(0)
    first, second, third = (pool.acquire(SIZE * n) for n in (1, 2, 3))
    first.release(after=Lost())
    second.release(after=Lost())
    third.release()
    with pytest.raises(RuntimeError, match="lost"):
        pool.close()
    assert pool.closed and pool.stats() == cuda.PoolStats(0, 3, 0, 0, 0, 0, 0)
    pool.close()


def test_a_pool_never_masks_an_exception(gpu, caplog):
    with pytest.raises(ZeroDivisionError), cuda.DevicePool(0) as pool:
        pool.acquire(SIZE).release(after=Lost())
        raise ZeroDivisionError
    assert pool.stats().held_bytes == 0 and "the device is lost" in caplog.text


@pytest.mark.parametrize("size", [0, -1, 2**62 + 1, 2**63 - 1, 2**64, -(2**64)])
def test_sizes_that_no_memory_has_are_refused(gpu, size):
    with cuda.DevicePool(0) as pool, pytest.raises(ValueError, match="size must be 1 to"):
        pool.acquire(size)
