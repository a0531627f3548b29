"""Several threads that each carry pieces between a file and a device through two slots of their own.

While the device copies one slot, the disk works on the other; while one thread waits for the disk, the
others do. All slots are registered host memory near the device, kept for the next time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeAlias

from zerosys.cuda import backend
from zerosys.cuda.backend import Context
from zerosys.cuda.fences import Fence
from zerosys.cuda.host_pool import HostPool
from zerosys.errors import PlacementError
from zerosys.locality import node_of

Piece: TypeAlias = tuple[int, int]  # a place in the file, and a length
# Carries a piece through the slot at (address, view); what to wait for before the slot is used again.
Carry: TypeAlias = Callable[[Piece, int, memoryview], "Fence | None"]

_pools: dict[Context, HostPool] = {}


def run(pieces: Iterable[Piece], slot: int, lanes: int, context: Context, carry: Carry) -> None:
    """Have *carry* done for each of *pieces* by *lanes* threads, in *context*; raises the first error.

    After an error, or Ctrl-C, no further piece is begun, and what is under way is waited for.
    """
    todo, lock, stop = iter(pieces), threading.Lock(), threading.Event()
    pool = _pool(context)

    def next_piece() -> Piece | None:
        with lock:
            return None if stop.is_set() else next(todo, None)

    def lane() -> None:
        with backend.current(backend.load(), context):
            _lane(pool, slot, next_piece, carry)

    with ThreadPoolExecutor(lanes, "zerosys-storage") as threads:
        running = [threads.submit(lane) for _ in range(lanes)]
        try:
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
            for one in done:
                one.result()
        finally:
            stop.set()


def _lane(pool: HostPool, slot: int, next_piece: Callable[[], Piece | None], carry: Carry) -> None:
    blocks = [pool.acquire(slot), pool.acquire(slot)]
    views = [block.view for block in blocks]
    fences: list[Fence | None] = [None, None]
    turn = 0
    try:
        while (piece := next_piece()) is not None:
            fence = fences[turn]
            if fence is not None:
                fence.wait()
            fences[turn] = carry(piece, blocks[turn].region.address, views[turn])  # type: ignore[union-attr]
            turn = 1 - turn
    finally:
        for block, view, fence in zip(blocks, views, fences, strict=True):
            if fence is not None:
                fence.wait()
            view.release()
            block.release()


def _pool(context: Context) -> HostPool:
    """The slots of *context*, on the node next to its device where anything tells it."""
    pool = _pools.get(context)
    if pool is None:
        try:
            node = node_of(f"cuda:{context.device}").node
        except (PlacementError, OSError):
            node = None
        pool = _pools[context] = HostPool(node, context.device)
    return pool


def trim() -> int:
    """Give the slots that are kept for the next time back to the system; the bytes."""
    return sum(pool.trim() for pool in _pools.values())
