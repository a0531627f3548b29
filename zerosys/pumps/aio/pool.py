"""A bounded number of pipes for any number of transfers on one event loop."""

from __future__ import annotations

import asyncio
import weakref
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Protocol

from zerosys._steps import Stage

_THREADS = 4  # a disk is not faster for more


class Borrower(Protocol):
    """Who borrows a pipe; a flow."""

    def park(self) -> Stage | None:
        """Give the pipe back, its bytes taken into memory; None where that failed or is refused."""

    def wake(self, stage: Stage | None) -> None:
        """Go on with *stage*; with None, ask again."""


class PipePool:
    """At most *most* private pipes of about *pipe_size* bytes, lent while bytes are in them.

    A transfer that waits for its source holds no pipe. One whose sink blocks holds one, until
    somebody else needs it: the bytes of whoever has waited longest are then taken into memory, to
    be counted as copied, and the emptied pipe goes on. So a thousand transfers need no more
    pipes than a few, and none is ever handed on with bytes in it.

    A strict transfer may not be copied, so its pipe is never taken: while its sink blocks it keeps
    it. With *most* of those blocked, all who need a pipe wait until one of the sinks takes
    something or its transfer ends. Give strict relays a pool of their own, of two pipes for each
    that may be blocked both ways at once, and a ``stall_timeout``. A fan-out takes no pipe from here.

    Belongs to one event loop. Pipes are made when needed, and closed when no transfer is left;
    with many users on one machine keep ``most * pipe_size`` below fs.pipe-user-pages-soft.
    """

    # What a transfer may have to park while pipes are short: 64 KiB and not a whole large pipe.
    SHORT = 1 << 16

    def __init__(self, most: int = 32, pipe_size: int = 1 << 20) -> None:
        if most < 1 or pipe_size < 1:
            raise ValueError(f"most and pipe_size must be at least 1, not {most} and {pipe_size}")
        self.most, self.pipe_size = most, pipe_size
        self._free: list[Stage] = []
        self._made = self._users = 0
        self._stalled: dict[Borrower, None] = {}  # in the order in which they stalled
        self._waiting: dict[Borrower, None] = {}  # in the order in which they asked
        self._threads: ThreadPoolExecutor | None = None

    @property
    def pipes(self) -> int:
        """Pipes that exist now, free or lent."""
        return self._made

    @property
    def free(self) -> int:
        """Pipes that exist and are lent to nobody."""
        return len(self._free)

    @property
    def short(self) -> bool:
        """Whether the next one to ask gets another's pipe."""
        return not self._free and self._made >= self.most

    def enter(self) -> None:
        """Count a transfer that may borrow."""
        self._users += 1

    def leave(self) -> None:
        """Count it no more; after the last the pipes are closed, and the threads end."""
        self._users -= 1
        if not self._users:
            for stage in self._free:
                stage.close()
            self._made -= len(self._free)
            self._free.clear()
            if self._threads is not None:
                self._threads.shutdown()  # nothing runs on them any more
                self._threads = None

    @property
    def threads(self) -> Executor:
        """Where files move while there are transfers.

        Not the loop's own executor: whoever waits there for the very bytes that a file is to give
        would keep them from ever coming.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "zerosys-aio")
        return self._threads

    def take(self, borrower: Borrower) -> Stage | None:
        """An empty pipe, or None: *borrower* will be woken.

        Raises OSError where no pipe can be made and there is none to wait for.
        """
        if self._free:
            return self._free.pop()
        if self._made < self.most:
            try:
                stage = Stage(self.pipe_size)
            except OSError:
                if not self._made:
                    raise
            else:
                self._made += 1
                return stage
        while self._stalled:
            oldest = next(iter(self._stalled))
            del self._stalled[oldest]
            if (parked := oldest.park()) is not None:
                return parked
        self._waiting[borrower] = None
        return None

    def give(self, stage: Stage) -> None:
        """Take back *stage*, which is empty."""
        if not self._wake_one(stage):
            self._free.append(stage)

    def lost(self) -> None:
        """Count a pipe no more that was closed, since it held bytes."""
        self._made -= 1
        self._wake_one(None)

    def _wake_one(self, stage: Stage | None) -> bool:
        """Hand *stage* to whoever has waited longest; whether there was anybody."""
        for borrower in self._waiting:
            del self._waiting[borrower]
            borrower.wake(stage)
            return True
        return False

    def stalled(self, borrower: Borrower) -> None:
        """Note that *borrower* waits for its sink, and holds a pipe; who needs one takes that."""
        if self._waiting and (stage := borrower.park()) is not None:
            self.give(stage)
        else:
            self._stalled[borrower] = None

    def forget(self, borrower: Borrower) -> None:
        """*borrower* waits for its sink no more, or for a pipe."""
        self._stalled.pop(borrower, None)
        self._waiting.pop(borrower, None)


_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, PipePool] = weakref.WeakKeyDictionary()


def pool_of(loop: asyncio.AbstractEventLoop) -> PipePool:
    """The pool of *loop* for those who bring none."""
    if (pool := _pools.get(loop)) is None:
        # A pool holds those who wait there, and they their loop: where one was closed under them,
        # it would stay for ever.
        for other in list(_pools):
            if other.is_closed():
                _pools.pop(other, None)
        pool = _pools.setdefault(loop, PipePool())
    return pool
