"""Flows that are one undertaking: they end together, and what is left of each is told."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, SupportsFloat

from zerosys._steps import Steps
from zerosys.pumps.aio.ends import End, sleeps
from zerosys.pumps.aio.flow import Flow
from zerosys.pumps.aio.pool import PipePool, pool_of
from zerosys.pumps.result import PumpResult, result_of

_CHECKS = 4  # looks at the progress in a stall timeout
_WATCH = 0.1  # s between two calls of a watcher

# Told of each flow that ends, and why; gives whether the others go on all the same.
After = Callable[[Flow, BaseException | None], bool]


def seconds(limit: SupportsFloat | None, name: str) -> float | None:
    """*limit* as a number; None is none. Raises ValueError for less than 0."""
    if limit is None:
        return None
    if not (value := float(limit)) >= 0:
        raise ValueError(f"{name} must be None or a number of seconds >= 0, not {limit!r}")
    return min(value, 1e9)  # 30 years, as without a loop


class Run:
    """Waits for its flows: for all of them, or for the first failure that the others do not survive."""

    def __init__(
        self,
        pool: PipePool | None,
        executor: Executor | None,
        *,
        strict: bool,
        touch_flags: bool,
        watch: Callable[[], object] | None = None,
        after: After = lambda flow, failure: failure is None,
    ) -> None:
        self.flows: list[Flow] = []
        self.began = time.monotonic()
        self.guilty: Flow | None = None
        self._loop = asyncio.get_running_loop()
        self._pool = pool_of(self._loop) if pool is None else pool
        self._executor, self._strict, self._touch_flags = executor, strict, touch_flags
        self._watch, self._watched, self._after = watch, self.began, after
        self._failure: BaseException | None = None
        # Without an exception in it: one that nobody fetches, for the task was cancelled in
        # the same round, would be complained of.
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._running = 0
        self._timers: dict[str, asyncio.Handle] = {}

    def add(self, source: End, sink: End, count: int | None = None, **options: Any) -> Flow:
        """One more flow, from *source* to *sink*; *options* are Steps'."""
        steps = Steps(
            source.target,
            sink.target,
            count,
            strict=self._strict,
            touch_flags=self._touch_flags and not sink.standard,
            **options,
        )
        flow = Flow(
            steps,
            self._pool,
            self._ended,
            threaded=any(map(sleeps, steps.kinds, steps.watched)),
            executor=self._executor,
            strict=self._strict,
            watch=self._look if self._watch else None,
        )
        self.flows.append(flow)
        return flow

    def _ended(self, flow: Flow, failure: BaseException | None) -> None:
        self._running -= 1
        if failure is not None and self._failure is None:
            self._failure, self.guilty = failure, flow
        if (not self._after(flow, failure) or not self._running) and not self._over.done():
            self._over.set_result(None)

    # -- time ---------------------------------------------------------------------------------

    def limit(self, timeout: float | None, stall_timeout: float | None) -> None:
        """Have the run fail *timeout* seconds from now, or when nothing moves for *stall_timeout*."""
        if timeout is not None:
            self._later("timeout", timeout, self._expire, f"{timeout:.3g} s are over")
        if stall_timeout is not None:
            self._check(stall_timeout, -1, 0)

    def _later(self, name: str, seconds: float, call: Callable[..., None], *arguments: object) -> None:
        self._timers[name] = self._loop.call_later(seconds, call, *arguments)

    def _check(self, stall: float, seen: int, times: int) -> None:
        """Compare the progress: the one timer that comes again, and only where it was asked for."""
        now = sum(flow.steps.progress for flow in self.flows)
        times = times + 1 if now == seen else 0
        if times == _CHECKS:
            self._expire(f"nothing has moved for {stall:.3g} s")
        else:
            self._later("stall", stall / _CHECKS, self._check, stall, now, times)

    def _expire(self, text: str) -> None:
        if not self._over.done():
            late = TimeoutError(errno.ETIMEDOUT, f"{text}, and the pump is not done")
            late.reason = "late"  # type: ignore[attr-defined]
            self._failure = late
            self._over.set_result(None)

    def _look(self) -> None:
        if self._watch and time.monotonic() - self._watched >= _WATCH:
            self._watched = time.monotonic()
            self._watch()

    # -- ending -------------------------------------------------------------------------------

    async def wait(self) -> None:
        """Run to the end. Raises what ended it, when nothing works on the flows any more."""
        self._running = len(self.flows)
        for flow in self.flows:
            flow.start()
        stopped: BaseException | None = None
        try:
            await self._over
            stopped = self._failure
        except asyncio.CancelledError as cancelled:
            stopped = cancelled
        for flow in self.flows:
            try:
                await flow.stop()
            except asyncio.CancelledError as cancelled:
                stopped = cancelled
        if stopped is not None:
            raise stopped

    def results(self) -> Sequence[PumpResult]:
        """The outcome of each flow by now."""
        seconds = time.monotonic() - self.began
        return [
            replace(result_of(flow.steps.transfer, seconds), pipe_size=flow.pipe_size) for flow in self.flows
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for flow in self.flows:
            flow.close()
