"""Leases that are given back once: at once, or when a device has finished with them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

_SHORTEST, _LONGEST = 20e-6, 1e-3  # seconds between two questions to an event that cannot be waited for


class DeviceEvent:
    """What happens on a device, asked in whichever words its library has.

    *after* is an event with ``query()``, ``done`` or ``is_done``, or ``synchronize()`` or
    ``sync()``; or a stream, whose present end is recorded. torch, CuPy, numba, cuda.core and
    whatever has the same words will do; none is imported. Raises TypeError for what has none.
    """

    def __init__(self, after: Any) -> None:
        event = _recorded(after)
        self._event = event
        self._ask = question(event)
        self._wait = getattr(event, "synchronize", None) or getattr(event, "sync", None)
        if self._ask is None and self._wait is None:
            raise TypeError(
                f"after must be a device's event or stream, with query() or synchronize(), not {after!r}"
            )

    def happened(self) -> bool:
        """Whether it has; an event that cannot be asked without waiting is waited for."""
        if self._ask is not None:
            return self._ask()
        self.wait()
        return True

    def wait(self) -> None:
        """Sleep until it has happened."""
        if self._wait is not None:
            self._wait()
            return
        assert self._ask is not None
        nap = _SHORTEST
        while not self._ask():
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST)


def _recorded(after: Any) -> Any:
    """The event at the present end of the stream *after*; an event as it is."""
    if hasattr(after, "record_event"):  # torch
        return after.record_event()
    if hasattr(after, "record") and (hasattr(after, "wait_event") or hasattr(after, "__cuda_stream__")):
        return after.record()  # CuPy, cuda.core
    return after


def question(event: Any) -> Callable[[], bool] | None:
    """How to ask *event*, of any library, whether it has happened; None where it has no word for it.

    Libraries have the same word as a value and as a method: a method is called, not taken for true.
    """
    if callable(query := getattr(event, "query", None)):
        return lambda: bool(query())
    for word in ("is_done", "done"):
        if hasattr(event, word):
            return lambda: bool(_said(getattr(event, word)))
    return None


def _said(value: Any) -> Any:
    return value() if callable(value) else value


class Returns:
    """Things to be given back in the order in which they were lent, each when its device is done.

    Of an event that raises nobody knows whether the device is done: it is told once, and what waited
    for it goes back together with what comes after it.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[DeviceEvent | None, Callable[[], None]]] = deque()
        self._failed: deque[Callable[[], None]] = deque()  # they wait for the first in the queue

    def __len__(self) -> int:
        return len(self._queue) + len(self._failed)

    def add(self, after: Any, give_back: Callable[[], None]) -> None:
        """Call *give_back* when *after* (None: nothing) and all that was added before have happened."""
        self._queue.append((None if after is None else DeviceEvent(after), give_back))

    def reap(self, *, wait: bool = False) -> None:
        """Give back what devices have finished with; with *wait*, all, once they have.

        Raises what an event raises, once.
        """
        while self._queue:
            event, give_back = self._queue[0]
            if event is not None and not self._passed(event, wait):
                return
            self._queue.popleft()
            while self._failed:
                self._failed.popleft()()
            give_back()

    def _passed(self, event: DeviceEvent, wait: bool) -> bool:
        """Whether *event*, the first in the queue, has happened; after *wait* it has."""
        try:
            if wait:
                event.wait()
            return wait or event.happened()
        except Exception:
            self._failed.append(self._queue.popleft()[1])
            raise
