"""What both pools are beyond lending: making, waiting for a device, giving back, counting."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from operator import index
from types import TracebackType
from typing import Any, Self, SupportsIndex

from zerosys._buckets import Block, Buckets, Piece
from zerosys.cuda import lifetime
from zerosys.cuda.fences import Fence
from zerosys.sizes import parse_size


@dataclass(frozen=True)
class PoolStats:
    """``hits`` were served from what was there, ``misses`` made; the rest are bytes and pieces of now.

    ``waiting`` pieces were given back and a device has not finished with them yet.
    """

    hits: int
    misses: int
    in_use: int
    free: int
    waiting: int
    held_bytes: int
    free_bytes: int


class Pool(Buckets):
    """Pieces by exact size. A subclass says how one is made."""

    def __init__(self, step: int, block: type[Block]) -> None:
        super().__init__(step, block)
        self._misses = self._held_bytes = 0
        self._counting = threading.RLock()  # the collector may drop a block while this thread holds it

    def _make(self, size: int) -> Piece:
        raise NotImplementedError

    def _take_slowly(self, size: SupportsIndex | str) -> Any:
        """A block that a device has finished with, or a new one."""
        asked = parse_size(size)
        self._settle()
        bucket = self.free.get(self._rounded(asked))
        try:
            piece = bucket.pop() if bucket else None
        except IndexError:  # another thread was faster
            piece = None
        if piece is None:
            piece = self._new(self._rounded(asked))
        else:
            self.hits += 1
        return self._lend(piece, asked)

    def _rounded(self, size: int) -> int:
        return -(-size // self.step) * self.step

    def _new(self, size: int) -> Piece:
        if self.closed:
            raise ValueError(f"this {type(self).__name__} is closed")
        piece = self._make(size)
        with self._counting:
            self._misses += 1
            self._held_bytes += size
        return piece

    def _give_later(self, piece: Piece, after: Any) -> None:
        """Take *piece* back once *after* has been passed; a closed pool ends it."""
        if after is not None:
            self.waiting.append((Fence(after), piece))
        else:
            self._end([piece])

    def _lose(self, piece: Piece) -> None:
        """*piece* was dropped, not given back: it is given up and not used again."""
        self._end([piece])

    def _settle(self) -> None:
        """Free the pieces that a device has finished with; never waits."""
        for _ in range(len(self.waiting)):
            try:
                fence, piece = self.waiting.popleft()
            except IndexError:
                return  # another thread was faster
            try:
                done = fence.done()
            except Exception:
                # What failed on the device is the caller's to know; the piece may not be used again.
                self._end([piece])
                raise
            except BaseException:  # Ctrl-C: it waits still
                self.waiting.append((fence, piece))
                raise
            if done:
                self._put(piece)
            else:
                self.waiting.append((fence, piece))

    def warm_up(self, size: SupportsIndex | str, count: SupportsIndex = 1) -> None:
        """Have *count* pieces of *size* bytes free, so that as many acquire() calls find one each."""
        wanted, rounded = index(count), self._rounded(parse_size(size))
        while len(self.free.get(rounded, ())) < wanted:
            self._put(self._new(rounded))

    def trim(self) -> int:
        """Give every free piece back to the system; the bytes. May wait for the device."""
        self._settle()
        return self._end(self._clear())

    def _end(self, pieces: list[Piece]) -> int:
        size = sum(piece.size for piece in pieces)
        with self._counting:
            self._held_bytes -= size
        for piece in pieces:
            piece.close()
        return size

    def close(self) -> None:
        """Give back what is free, and the rest as it comes back; acquire() makes nothing new then.

        Waits for devices. What failed on one is raised at the end, when everything was given back.
        """
        self.closed = True
        failure = None
        while self.waiting:
            try:
                with suppress(IndexError):  # another thread was faster
                    self.waiting[0][0].wait()
                self._settle()
            except Exception as error:
                failure = failure or error
                self._drop_failed()
        self.trim()
        if failure is not None:
            raise failure

    def _drop_failed(self) -> None:
        """End the pieces whose device failed."""
        with suppress(Exception):  # one of them is raised already
            self._settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an exception is never masked by what failed on a device."""
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            lifetime.log.warning("%s: %s", type(self).__name__, failure)

    def stats(self) -> PoolStats:
        """The counts of now."""
        free = [piece.size for bucket in list(self.free.values()) for piece in list(bucket)]
        return PoolStats(
            self.hits,
            self._misses,
            self.in_use,
            len(free),
            len(self.waiting),
            self._held_bytes,
            sum(free),
        )
