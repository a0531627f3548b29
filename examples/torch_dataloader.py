"""Workers stack samples into slots of shared, registered memory: one CPU copy a byte, no more."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context

import numpy
from numpy.typing import NDArray

from zerosys import cuda

SHAPE, BATCH, BATCHES, WORKERS = (64, 1024), 8, 16, 2
Sample = NDArray[numpy.float32]
Collate = Callable[[list[Sample]], cuda.Slot]
SAMPLES = [numpy.full(SHAPE, n, "f4") for n in range(BATCH * BATCHES)]  # the dataset
collate_here: Collate  # in a worker: what it was started with


def into_slot(pool: cuda.SlotPool, samples: list[Sample]) -> cuda.Slot:
    """What collates: the batch is written where the device copies from; what travels is its number."""
    slot = pool.acquire(timeout=60)
    numpy.stack(samples, out=slot.array("f4", (BATCH, *SHAPE)))
    return slot


def start(collate: Collate) -> None:
    global collate_here
    collate_here = collate


def batch(n: int) -> cuda.Slot:
    return collate_here(SAMPLES[n * BATCH : (n + 1) * BATCH])


def by_processes(collate: Collate) -> Iterator[object]:
    with get_context("spawn").Pool(WORKERS, start, (collate,)) as workers:
        yield from workers.imap_unordered(batch, range(BATCHES))


def by_torch(collate: Collate | None, pin_memory: bool = False) -> Iterator[object]:
    from torch.utils.data import DataLoader

    yield from DataLoader(SAMPLES, BATCH, num_workers=WORKERS, collate_fn=collate, pin_memory=pin_memory)


def consume(loader: Iterable[object], gpu: bool) -> float:
    """Samples a second; a slot goes back once the device has copied it, or else at once."""
    begin, seen = time.perf_counter(), []
    for batch in loader:
        if gpu:
            import torch

            there = torch.from_dlpack(batch).to("cuda", non_blocking=True)
            seen.append(float(there.view(torch.float32).flatten()[0]))
        else:
            seen.append(float(numpy.asarray(batch).view("f4").flat[0]))
        if isinstance(batch, cuda.Slot):
            batch.release(after=torch.cuda.current_stream() if gpu else None)
    assert sorted(seen) == list(range(0, BATCH * BATCHES, BATCH))
    return BATCH * BATCHES / (time.perf_counter() - begin)


def main() -> None:
    torch_is_there = find_spec("torch") is not None
    gpu = bool(torch_is_there and cuda.memory_model())
    with cuda.SlotPool.create(2 * WORKERS + 2, BATCH << 18, device=0 if gpu else None) as pool:
        ours = consume((by_torch if torch_is_there else by_processes)(partial(into_slot, pool)), gpu)
        print(f"slots: {ours:.0f} samples/s of 256 KiB, copied once each by a worker")
        assert pool.held == 0
    if torch_is_there:
        print(f"torch: {consume(by_torch(None, pin_memory=gpu), gpu):.0f} samples/s, pin_memory={gpu}")


if __name__ == "__main__":
    main()
