"""One direction on an event loop: stepped when an end is ready, without a thread or a timer of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import TYPE_CHECKING

from zerosys._steps import Stage, Steps
from zerosys.pumps.aio.pool import PipePool
from zerosys.pumps.aio.turns import PAUSE, Turns
from zerosys.pumps.aio.watching import watch

if TYPE_CHECKING:
    from zerosys._steps import _Outcome


class Flow(Turns):
    """Drives *steps* until they are done or fail; then calls *ended* with None or the failure.

    The descriptors of *steps* are watched: they are the flow's own, or both directions' of a
    relay, so that nobody else's interest in the same socket is disturbed. *executor* is
    where the steps run when they may sleep for a disk; None is the pool's own threads.
    """

    __slots__ = (
        "_dst_fd",
        "_ended",
        "_src_fd",
        "_unwatch",
        "_watched",
        "_watcher",
        "closed",
        "pipe_size",
        "steps",
        "strict",
    )

    def __init__(
        self,
        steps: Steps,
        pool: PipePool,
        ended: Callable[[Flow, BaseException | None], None],
        *,
        threaded: bool = False,
        executor: Executor | None = None,
        strict: bool = False,
        watch: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(pool, threaded, executor)
        self.steps = steps
        self.strict, self._watcher = strict, watch
        self.closed = False
        self.pipe_size = 0
        self._src_fd, self._dst_fd = steps.watched
        self._ended = ended
        self._watched: str | None = None
        self._unwatch: Callable[[], None] | None = None
        pool.enter()

    # -- driving ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin at the loop's next round."""
        self._soon()

    def wake(self, stage: Stage | None) -> None:
        """The pool has *stage* for us, or is to be asked again."""
        if stage is not None:
            self._lend(stage)
        self._soon()

    def _go(self) -> None:
        """An end is ready, or may be."""
        self._later = None
        if self.steps.staged:
            self._pool.forget(self)
        self._take_turn()

    def _stepped(self) -> Steps:
        return self.steps

    def _is_over(self) -> bool:
        return self.closed

    def _watch_nothing(self) -> None:
        self._watch(None)

    def _act(self, outcome: _Outcome) -> None:
        if self.steps.staged and not self.steps.transfer.stranded:
            self._give_back()
        if self._watcher is not None:
            self._watcher()
        if outcome is None:
            self._end(None)
        elif outcome == "pipe":
            self._borrow()
        elif outcome == "working":
            self._watch(None)
            self._soon()
        elif outcome == "time":
            self._watch(None)
            self._soon(max(self.steps.transfer.pause, PAUSE))
        else:
            self._wait_for(outcome)

    def _wait_for(self, side: str) -> None:
        if self.steps.staged and not self.strict:
            self._pool.stalled(self)
        if (pause := self._pause()) and self._watched == side:
            self._watch(None)
            self._soon(pause)
            return
        try:
            self._watch(side)
        except OSError as failure:
            self._end(failure)

    def _watch(self, side: str | None) -> None:
        if side == self._watched:
            return
        if self._unwatch is not None:
            unwatch, self._unwatch, self._watched = self._unwatch, None, None
            unwatch()
        if side is not None:
            fd = self._src_fd if side == "source" else self._dst_fd
            self._unwatch = watch(self._loop, side, fd, self._go)
            self._watched = side

    # -- the pipe -----------------------------------------------------------------------------

    def _borrow(self) -> None:
        self._watch(None)
        try:
            stage = self._pool.take(self)
        except OSError as failure:
            self._end(failure)
            return
        if stage is None:
            return  # the pool wakes us
        self._lend(stage)
        self._go()

    def _lend(self, stage: Stage) -> None:
        self.steps.lend(stage, PipePool.SHORT if self._pool.short else stage.size)
        self.pipe_size = stage.size

    def _give_back(self) -> None:
        stage = self.steps.take_back()
        self._pool.forget(self)
        if stage is not None:
            self._pool.give(stage)

    def park(self) -> Stage | None:
        """Take what the pipe holds into memory, and give the pipe up."""
        try:
            return self.steps.take_back()
        except (OSError, MemoryError):
            return None  # it stays where it is

    # -- ending -------------------------------------------------------------------------------

    def _end(self, failure: BaseException | None) -> None:
        if self.closed:
            return
        self._detach()
        # The other direction of a relay may go on for long: what is stranded needs no pipe meanwhile.
        if self.steps.staged and (stage := self.park()) is not None:
            self._pool.give(stage)
        self._ended(self, failure)

    def _detach(self) -> None:
        self.closed = True
        with suppress(OSError):
            self._watch(None)
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._pool.forget(self)

    async def stop(self) -> None:
        """End wherever it is, and return when no thread works on it any more; never cancelled half-way."""
        if not self.closed:
            self._detach()
        self.steps.stop()
        await self._until_no_thread_is_at_it()

    def close(self) -> None:
        """Give everything back; a pipe in which bytes are left is closed, and not used again."""
        try:
            stage = None if self.steps.transfer.stranded else self.steps.take_back()
            lost = self.steps.staged
            self.steps.close()
            if stage is not None:
                self._pool.give(stage)
            elif lost:
                self._pool.lost()
        finally:
            self._pool.leave()
