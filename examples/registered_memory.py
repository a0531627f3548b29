"""Shared memory that a GPU reads in place: registered where there is one, and said so where there is none."""

import numpy

from zerosys import SharedRegion, cuda

COUNT = 1 << 18


def on_the_device(region: SharedRegion) -> None:
    """Copy the region to the device at link speed, and look at it there through no copy at all."""
    back = numpy.empty(COUNT, "f4")
    with cuda.DevicePool(0) as pool, pool.acquire(region.size) as there:
        with cuda.register(region, device=0) as made:
            moved = cuda.copy(there, region)
            cuda.copy(back, there)
            with cuda.expect_no_staging(), cuda.DeviceView(region, "in") as view:
                print(f"{made.pinned} bytes registered, read in place at {view.pointer:#x}, {moved} copied")
    assert (back == region.array("f4")).all() and moved == region.size


def main() -> None:
    model = cuda.memory_model()
    with SharedRegion.create(COUNT * 4) as region:
        region.array("f4")[:] = numpy.arange(COUNT)
        if model:
            print(f"cuda:{model.device} has {model.kind} memory")
            on_the_device(region)
        else:
            print(f"no device: {model.reason}")
            assert region.pinned == 0 and float(region.array("f4")[-1]) == COUNT - 1
            print(f"the {region.size} bytes are shared memory all the same")


if __name__ == "__main__":
    main()
