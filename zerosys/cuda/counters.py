"""How many views were made, and what was copied for them: counted for the whole process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """Since the process began: DeviceViews made, those of them that were staged, bytes copied for these."""

    views: int
    stagings: int
    bytes_in: int  # to the device
    bytes_out: int  # back from it

    def __sub__(self, before: Stats) -> Stats:
        return Stats(
            self.views - before.views,
            self.stagings - before.stagings,
            self.bytes_in - before.bytes_in,
            self.bytes_out - before.bytes_out,
        )


class Counters:
    """The numbers themselves; whoever changes one holds ``lock``.

    It is reentrant: the collector may drop a registration or a view while this thread holds it.
    """

    __slots__ = ("bytes_in", "bytes_out", "lock", "stagings", "views")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.views = self.stagings = self.bytes_in = self.bytes_out = 0

    def staged(self, bytes_in: int) -> None:
        """One view more, which is a copy."""
        with self.lock:
            self.views += 1
            self.stagings += 1
            self.bytes_in += bytes_in

    def copied_back(self, size: int) -> None:
        """What a staged view copied back to where it came from."""
        with self.lock:
            self.bytes_out += size

    def unlock(self) -> None:
        """A child has the lock as it was at the fork, held perhaps by a thread that it has not."""
        self.lock = threading.RLock()


counters = Counters()
os.register_at_fork(after_in_child=counters.unlock)


def stats() -> Stats:
    """What DeviceViews did in this process so far; subtract an earlier one to see a part of it."""
    with counters.lock:
        return Stats(counters.views, counters.stagings, counters.bytes_in, counters.bytes_out)


@contextmanager
def expect_no_staging() -> Iterator[None]:
    """Raise AssertionError at the end of the block if any thread's DeviceView was staged meanwhile.

    For tests of your own. DeviceView(..., strict=True) refuses before it copies. What copies by itself
    (``tensor.to("cuda")``, ``cupy.asarray(array)``) is out of sight.
    """
    before = stats()
    yield
    seen = stats() - before
    if seen.stagings:
        raise AssertionError(
            f"{seen.stagings} of {seen.views} DeviceViews were staged: {seen.bytes_in} bytes to the device, "
            f"{seen.bytes_out} back; register their memory, or take it from a HostPool"
        )
