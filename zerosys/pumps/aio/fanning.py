"""``await aio.pump(src, [a, b, c])``: the steps of a fan-out, taken when an end is ready."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex

from zerosys._fanout import FanOut
from zerosys.pumps.aio.ends import End, Endpoint, sleeps
from zerosys.pumps.aio.pool import PipePool, pool_of
from zerosys.pumps.aio.turns import PAUSE, Turns
from zerosys.pumps.aio.watching import watch as watch_end
from zerosys.pumps.fanning import (
    FanOutResult,
    OnSlow,
    drops,
    go_to_their_positions,
    refuse_copies,
    result_of,
    settle,
    stopped_by,
)
from zerosys.pumps.result import carry, short_source

if TYPE_CHECKING:
    from zerosys._fanout import _Outcome

_CHECKS = 4  # looks at the progress in a stall timeout
_WATCH = 0.1  # s between two calls of a watcher


async def fan_out(
    src: Endpoint,
    sinks: Sequence[Endpoint],
    count: int | None,
    *,
    offset_src: int | None,
    timeout: float | None,
    stall_timeout: float | None,
    strict: bool,
    touch_flags: bool,
    progress: Callable[[FanOutResult], object] | None,
    pipe_size: int,
    unit: SupportsIndex,
    on_slow: OnSlow,
    linger: SupportsFloat | None,
    pool: PipePool | None,
    executor: Executor | None,
) -> FanOutResult:
    """Carry the bytes of *src* to every one of *sinks* while the event loop goes on; see pump()."""
    began = time.monotonic()
    drop = drops(on_slow, strict, unit)
    with ExitStack() as stack:
        source = stack.enter_context(End(src, offset_src, reads=True, writes=False))
        ends = [
            stack.enter_context(End(sink, reads=False, writes=True, name=f"dst[{number}]"))
            for number, sink in enumerate(sinks)
        ]
        for end in ends:
            if end.is_memory:
                raise TypeError("a sink of a fan-out is a descriptor, and a buffer is none: pump to it alone")
            await end.flush()
        if strict:
            refuse_copies([end.found.end for end in ends])
        found = [end.found for end in ends]
        go_to_their_positions(found)
        source.take_over(count, strict)
        fan = _fan(source, ends, count, drop=drop, unit=unit, pipe_size=pipe_size, strict=strict,
                   touch_flags=touch_flags, linger=linger)  # fmt: skip
        stack.enter_context(fan)
        run = FanRun(
            fan,
            _pool(pool),
            executor,
            watch=(lambda: progress(result_of(fan, unit, began, final=False))) if progress else None,
        )
        try:
            await run.wait(timeout, stall_timeout)
        except BaseException as stopped:
            raising = stopped_by(stopped, fan, unit, began)
            settle(fan, source.found, found)
            if raising is stopped:
                raise
            raise raising from None
        settle(fan, source.found, found)
        if count is not None and fan.taken < count:
            raise short_source(count, fan.taken)
        return result_of(fan, unit, began)


def _pool(pool: PipePool | None) -> PipePool:
    return pool_of(asyncio.get_running_loop()) if pool is None else pool


def _fan(
    source: End,
    sinks: Sequence[End],
    count: int | None,
    *,
    drop: bool,
    unit: SupportsIndex,
    pipe_size: int,
    strict: bool,
    touch_flags: bool,
    linger: SupportsFloat | None,
) -> FanOut:
    """The fan-out of *sinks*, with what was read from the source before already in their pipes."""
    try:
        fan = FanOut(
            source.target,
            [sink.target for sink in sinks],
            None if count is None else count - len(source.before),
            offset_src=source.offset,
            unit=unit,
            drop=drop,
            pipe_size=max(pipe_size, len(source.before)),
            touch_flags=touch_flags and not any(sink.standard for sink in sinks),
            strict=strict,
            linger=linger,
        )
        fan.prepend(source.before)
    except BaseException as refusal:
        carry(refusal, stranded_bytes=source.before)
        raise
    return fan


class FanRun(Turns):
    """Steps *fan* when one of its ends is ready, until it is done or fails.

    Its pipes are its own, one for each sink: *pool* only lends the threads on which it runs where
    an end is a file.
    """

    def __init__(
        self,
        fan: FanOut,
        pool: PipePool,
        executor: Executor | None,
        *,
        watch: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(pool, any(map(sleeps, fan.kinds, fan.watched)), executor)
        self._fan, self._watcher = fan, watch
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._failure: BaseException | None = None
        self._src_fd, *self._dst_fds = fan.watched
        self._watched: dict[tuple[str, int], Callable[[], None]] = {}
        self._timers: dict[str, asyncio.Handle] = {}
        self._told = time.monotonic()

    async def wait(self, timeout: float | None, stall_timeout: float | None) -> None:
        """Run to the end. Raises what ended it, when no thread works on it any more."""
        self._pool.enter()
        try:
            self._fan.start()
            self._limit(timeout, stall_timeout)
            self._soon()
            await self._over
        finally:
            try:
                await self._stop()
            finally:
                self._fan.stop()
                self._pool.leave()
        if self._failure is not None:
            raise self._failure

    # -- driving ------------------------------------------------------------------------------

    def _go(self) -> None:
        """An end is ready, or may be."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._take_turn()

    def _stepped(self) -> FanOut:
        return self._fan

    def _is_over(self) -> bool:
        return self._over.done()

    def _watch_nothing(self) -> None:
        self._watch(set())

    def _act(self, outcome: _Outcome) -> None:
        try:
            self._tell()
            if outcome is None:
                self._end(None)
            elif outcome == "working":
                self._watch(set())
                self._soon()
            else:
                self._wait_for_ends()
        except Exception as failure:
            self._end(failure)

    def _wait_for_ends(self) -> None:
        pause = self._pause()
        self._watch(set() if pause else self._wanted())
        # A sink that is to be given up makes nothing ready.
        delay = pause if pause else self._fan.lingers
        if delay is not None:
            self._soon(max(delay, PAUSE))

    def _wanted(self) -> set[tuple[str, int]]:
        source, sinks = self._fan.waits
        wanted = {("sink", self._dst_fds[number]) for number in sinks}
        return wanted | {("source", self._src_fd)} if source else wanted

    def _watch(self, wanted: set[tuple[str, int]]) -> None:
        for end in self._watched.keys() - wanted:
            self._watched.pop(end)()
        for side, fd in wanted - self._watched.keys():
            self._watched[side, fd] = watch_end(self._loop, side, fd, self._go)

    def _tell(self) -> None:
        if self._watcher and time.monotonic() - self._told >= _WATCH:
            self._told = time.monotonic()
            self._watcher()

    # -- time, and the end --------------------------------------------------------------------

    def _limit(self, timeout: float | None, stall_timeout: float | None) -> None:
        if timeout is not None:
            self._timers["timeout"] = self._loop.call_later(
                timeout, self._expire, f"{timeout:.3g} s are over"
            )
        if stall_timeout is not None:
            self._check(stall_timeout, -1, 0)

    def _check(self, stall: float, seen: int, times: int) -> None:
        now = self._fan.progress
        times = times + 1 if now == seen else 0
        if times == _CHECKS:
            self._expire(f"nothing has moved for {stall:.3g} s")
        else:
            self._timers["stall"] = self._loop.call_later(stall / _CHECKS, self._check, stall, now, times)

    def _expire(self, text: str) -> None:
        late = TimeoutError(errno.ETIMEDOUT, f"{text}, and the pump is not done")
        late.reason = "late"  # type: ignore[attr-defined]
        self._end(late)

    def _end(self, failure: BaseException | None) -> None:
        if not self._over.done():
            self._failure = failure
            self._over.set_result(None)

    async def _stop(self) -> None:
        """End wherever it is, and return when no thread works on it any more; never cancelled half-way."""
        for timer in (*self._timers.values(), self._later):
            if timer is not None:
                timer.cancel()
        with suppress(OSError):
            self._watch(set())
        await self._until_no_thread_is_at_it()
