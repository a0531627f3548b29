"""Taking turns on an event loop: what is stepped when an end may be ready, and never spins."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from concurrent.futures import Executor
from typing import Any, Protocol

from zerosys.pumps.aio.pool import PipePool

_PATIENCE = 2  # ready and nothing moved: so often at once, then after pauses
PAUSE, _LONGEST = 0.001, 0.064


class Stepped(Protocol):
    """The steps of a transfer or of a fan-out; ``progress`` grows when bytes move."""

    @property
    def progress(self) -> int: ...
    def step(self) -> Any: ...
    def slice(self) -> Any: ...


class Turns(ABC):
    """Steps something on the loop; or in slices on a thread, where its steps may sleep for a disk.

    *executor* gives the threads; None is the pool's own.
    """

    __slots__ = ("_executor", "_futile", "_later", "_loop", "_pool", "_seen", "_slice", "_threaded")

    def __init__(self, pool: PipePool, threaded: bool, executor: Executor | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool, self._threaded, self._executor = pool, threaded, executor
        self._later: asyncio.Handle | None = None
        self._slice: asyncio.Future[Any] | None = None
        self._seen, self._futile = -1, 0

    @abstractmethod
    def _stepped(self) -> Stepped:
        """What is stepped."""

    @abstractmethod
    def _is_over(self) -> bool:
        """Whether no further step is to be taken."""

    @abstractmethod
    def _go(self) -> None:
        """An end is ready, or may be."""

    @abstractmethod
    def _act(self, outcome: Any) -> None:
        """Do what *outcome*, a step's, asks for."""

    @abstractmethod
    def _end(self, failure: BaseException | None) -> None:
        """It is done, or has failed."""

    @abstractmethod
    def _watch_nothing(self) -> None:
        """Have no end call _go()."""

    def _soon(self, after: float = 0) -> None:
        self._later = self._loop.call_later(after, self._go) if after else self._loop.call_soon(self._go)

    def _take_turn(self) -> None:
        if self._is_over():
            return
        # Whatever is raised here, by a user's executor or progress function too, would else be the
        # loop's to complain of, and nobody would ever go on.
        try:
            if self._threaded:
                self._watch_nothing()
                self._slice = self._loop.run_in_executor(self._threads(), self._stepped().slice)
                self._slice.add_done_callback(self._sliced)
            else:
                self._act(self._stepped().step())
        except Exception as failure:
            self._end(failure)

    def _threads(self) -> Executor:
        return self._pool.threads if self._executor is None else self._executor

    def _sliced(self, done: asyncio.Future[Any]) -> None:
        self._slice = None
        dropped = done.cancelled()
        failure = None if dropped else done.exception()  # fetched, or it would be complained of
        if self._is_over():
            return
        if dropped:
            # No CancelledError: nobody has cancelled the task.
            failure = RuntimeError("the executor has dropped the work of this pump: let it run till the end")
        try:
            if failure is not None:
                raise failure
            self._act(done.result())
        except Exception as failure:
            self._end(failure)

    def _pause(self) -> float:
        """What is called ready and then moves nothing must not make us spin."""
        progress = self._stepped().progress
        self._futile = self._futile + 1 if progress == self._seen else 0
        self._seen = progress
        if self._futile <= _PATIENCE:
            return 0.0
        return float(min(PAUSE * 2 ** (self._futile - _PATIENCE - 1), _LONGEST))

    async def _until_no_thread_is_at_it(self) -> None:
        """Wait for the slice that is under way; never cancelled half-way."""
        cancelled = None
        while self._slice is not None and not self._slice.done():
            try:
                await asyncio.wait([self._slice])
            except asyncio.CancelledError as again:
                cancelled = again
        if self._slice is not None and not self._slice.cancelled():
            self._slice.exception()  # which is not news any more
        if cancelled:
            raise cancelled
