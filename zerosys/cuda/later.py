"""Slots that were given back while a device was at them: a thread puts each back once its event has passed.

A thread and not the next call of the same process: those who wait for a slot are other processes, and
the one that released it may be waiting for them.
"""

from __future__ import annotations

import threading
import time
import weakref
from contextlib import nullcontext
from typing import Any

from zerosys._slots import SlotTable
from zerosys.cuda import backend, lifetime
from zerosys.cuda.fences import Fence

_SHORTEST, _LONGEST = 20e-6, 1e-3  # seconds between two questions

Waiting = tuple[Fence, SlotTable, int, int]  # what to wait for, the slot's pool, which stays, and its word


class Later:
    """What of *table* waits for a device; its thread starts with the first, and ends at close()."""

    def __init__(self, table: SlotTable) -> None:
        self._table = weakref.ref(table, self._stop)  # the thread ends with the pool
        self._changed = threading.Condition()
        self._waiting: list[Waiting] = []
        self._busy = self._stopped = False
        self._thread: threading.Thread | None = None

    def add(self, index: int, word: int, after: Any) -> None:
        """Give the slot back once *after* has been passed."""
        fence, table = Fence(after), self._table()
        assert table is not None  # it is who calls
        with self._changed:
            self._waiting.append((fence, table, index, word))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="zerosys-slots", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Return when nothing waits any more."""
        with self._changed:
            while self._waiting or self._busy:
                self._changed.wait(0.1)  # Ctrl-C is answered between two
        self._stop()
        if self._thread is not None:
            self._thread.join()

    def _stop(self, _: object = None) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _run(self) -> None:
        nap = _SHORTEST
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._waiting and not self._stopped:
                    self._changed.wait()
                if self._stopped or lifetime.ending():
                    return
                waiting, self._waiting, self._busy = self._waiting, [], True
            left = [one for one in waiting if not _put_back(*one)]
            nap = _SHORTEST if len(left) < len(waiting) else min(2 * nap, _LONGEST)
            with self._changed:
                self._waiting = left + self._waiting
            if left:
                time.sleep(nap)
            del waiting, left  # they would keep the pool


def _put_back(fence: Fence, table: SlotTable, index: int, word: int) -> bool:
    """Whether the slot waits no more."""
    try:
        context = fence.context
        with backend.current(backend.load(), context) if context else nullcontext():
            if not fence.done():
                return False
    except Exception as refusal:
        # Whether the device is at it still, nobody knows: it may not be used again.
        lifetime.log.warning("slot %d is given up: %s", index, refusal)
        return True
    table._give(index, word)
    return True
