"""Threads that register, view, pool and drop the same memory, in cycles too, leave nothing behind."""

import gc
import random
import threading

import pytest

from zerosys import SharedRegion, cuda, pinned
from zerosys.errors import NotRegisterable

ROUNDS = 400


def register_and_view(region, chance, pools):
    with cuda.register(region, 0) as made, cuda.DeviceView(region, device=0) as view:
        assert view.pointer == made.device_pointer()


def drop_in_a_cycle(region, chance, pools):
    cycle = [cuda.register(region, 0)]
    cycle.append(cycle)
    if chance.random() < 0.1:
        gc.collect()


def view_whatever_it_is(region, chance, pools):
    with cuda.DeviceView(region, "inout", device=0):
        pass


def register_a_part(region, chance, pools):
    cuda.register(region.array("u1", 4096, 4096 * chance.randrange(4)), 0).close()


def pass_blocks(region, chance, pools):
    host, device = pools
    with host.acquire(chance.choice([4096, 5000, 8192])) as block:
        block.array("u1")[0] = 1
    device.acquire(chance.choice([100, 1000])).release(after=0 if chance.random() < 0.3 else None)


WORKS = [register_and_view, drop_in_a_cycle, view_whatever_it_is, register_a_part, pass_blocks]


@pytest.mark.timeout(110)
def test_threads_that_do_everything_at_once_leave_nothing(gpu):
    regions = [SharedRegion.create(64 << 10, pages="base") for _ in range(3)]
    pools = cuda.HostPool(device=0), cuda.DevicePool(0)
    wrong = []

    def work(seed):
        chance = random.Random(seed)
        gpu.make_current()
        try:
            for _ in range(ROUNDS):
                try:
                    chance.choice(WORKS)(chance.choice(regions), chance, pools)
                except NotRegisterable as refusal:
                    assert "in part already" in str(refusal)  # another thread has a part of it, or all
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert wrong == []
    for pool in pools:
        gpu.finish(0)
        pool.close()
        assert (pool.stats().held_bytes, pool.stats().in_use, pool.stats().waiting) == (0, 0, 0)
    assert pinned.ranges() == []
    assert [region.views for region in regions] == [0, 0, 0]
    for region in regions:
        assert gpu.unregister(region.address) == 713
        region.close()
