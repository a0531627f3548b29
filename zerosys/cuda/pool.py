"""What both pools are: exact sizes in buckets, nothing freed on the way, a count of everything."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from operator import index
from typing import Any, Generic, Protocol, SupportsIndex, TypeVar

from zerosys.cuda.fences import Fence
from zerosys.sizes import parse_size


class Piece(Protocol):
    """Memory that a pool owns; ``size`` is that of its bucket."""

    size: int

    def close(self) -> None: ...


P = TypeVar("P", bound=Piece)


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


class Buckets(Generic[P]):
    """Pieces by exact size. A subclass says how one is made, and what a caller is handed."""

    _step: int  # sizes are rounded up to a multiple of this

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[int, list[P]] = {}
        self._waiting: deque[tuple[Fence, P]] = deque()
        self._hits = self._misses = self._in_use = self._held = 0
        self._closed = False

    def _make(self, size: int) -> P:
        raise NotImplementedError

    def _take(self, size: SupportsIndex | str) -> P:
        """A piece for *size* bytes: one that is free, or that a device has finished with, or a new one."""
        asked = size if type(size) is int else parse_size(size)
        rounded = -(-asked // self._step) * self._step
        if self._waiting:
            self._settle()
        with self._lock:
            bucket = self._free.get(rounded)
            if bucket:
                self._hits += 1
                self._in_use += 1
                return bucket.pop()
        return self._new(parse_size(rounded))

    def _new(self, size: int) -> P:
        if self._closed:
            raise ValueError(f"this {type(self).__name__} is closed")
        piece = self._make(size)
        with self._lock:
            self._misses += 1
            self._in_use += 1
            self._held += size
        return piece

    def _give(self, piece: P, after: Any) -> None:
        """Take *piece* back, once *after* (a stream or an event) has been passed."""
        fence = None if after is None else Fence(after)
        with self._lock:
            self._in_use -= 1
            if fence is not None:
                self._waiting.append((fence, piece))
            elif not self._closed:
                bucket = self._free.get(piece.size)
                if bucket is None:
                    bucket = self._free[piece.size] = []
                bucket.append(piece)
                return
        if fence is None:
            self._end([piece])

    def _lose(self, piece: P) -> None:
        """*piece* was dropped, not given back: it is given up and not used again."""
        with self._lock:
            self._in_use -= 1
        self._end([piece])

    def _settle(self) -> None:
        """Free the pieces that a device has finished with; never waits."""
        for _ in range(len(self._waiting)):
            try:
                fence, piece = self._waiting.popleft()
            except IndexError:
                return  # another thread was faster
            if fence.done():
                with self._lock:
                    self._free.setdefault(piece.size, []).append(piece)
            else:
                self._waiting.append((fence, piece))

    def warm_up(self, size: SupportsIndex | str, count: SupportsIndex = 1) -> None:
        """Have *count* pieces of *size* bytes free, so that as many acquire() calls find one each."""
        wanted, rounded = index(count), -(-parse_size(size) // self._step) * self._step
        while True:
            with self._lock:
                if len(self._free.get(rounded, ())) >= wanted:
                    return
            piece = self._new(rounded)
            with self._lock:
                self._in_use -= 1
                self._free.setdefault(rounded, []).append(piece)

    def trim(self) -> int:
        """Give every free piece back to the system; the bytes. May wait for the device."""
        self._settle()
        with self._lock:
            pieces = [piece for bucket in self._free.values() for piece in bucket]
            self._free.clear()
        return self._end(pieces)

    def _end(self, pieces: list[P]) -> int:
        size = sum(piece.size for piece in pieces)
        with self._lock:
            self._held -= size
        for piece in pieces:
            piece.close()
        return size

    def close(self) -> None:
        """Give back what is free, and the rest as it comes back; acquire() makes nothing new then."""
        self._closed = True
        while self._waiting:
            self._waiting[0][0].wait()
            self._settle()
        self.trim()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def stats(self) -> PoolStats:
        """The counts of now."""
        with self._lock:
            free = [piece.size for bucket in self._free.values() for piece in bucket]
            return PoolStats(
                self._hits, self._misses, self._in_use, len(free), len(self._waiting), self._held, sum(free)
            )
