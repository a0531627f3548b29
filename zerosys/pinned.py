"""Which memory of this process a device's driver has pinned, as far as zerosys knows: by address.

One table for the whole process. Those who register write it; regions, which know nothing of devices,
read it to say what they are and to refuse what pinned pages cannot do.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from zerosys.errors import PlacementError


class Pinned(NamedTuple):
    """One registered range: ``what`` is whoever registered it, ``device`` that device's number."""

    start: int
    end: int
    device: int
    what: Any


# Replaced whole at each change and never changed in place, so that readers need no lock: the
# starts in order, and the ranges, which do not overlap.
_table: tuple[list[int], list[Pinned]] = ([], [])


def note(row: Pinned) -> None:
    """Enter *row*; the writer holds a lock of its own, and has looked at overlapping() before."""
    global _table
    rows = sorted([*_table[1], row])
    _table = [kept.start for kept in rows], rows


def forget(what: object) -> None:
    """Take out the range of *what*; quiet if there is none."""
    global _table
    rows = [row for row in _table[1] if row.what is not what]
    _table = [row.start for row in rows], rows


def ranges() -> list[Pinned]:
    """Every range, by address."""
    return list(_table[1])


def find(start: int, length: int) -> Pinned | None:
    """The one range that holds all *length* bytes at *start*."""
    starts, rows = _table
    at = bisect_right(starts, start) - 1
    if at >= 0:
        row = rows[at]
        if start + length <= row.end:
            return row
    return None


def overlapping(start: int, length: int) -> list[Pinned]:
    """The ranges that share a byte with *length* bytes at *start*."""
    starts, rows = _table
    first = max(bisect_right(starts, start) - 1, 0)
    last = bisect_left(starts, start + length)
    return [row for row in rows[first:last] if row.end > start]


def covered(start: int, length: int) -> int:
    """How many of *length* bytes at *start* are pinned."""
    end = start + length
    return sum(min(row.end, end) - max(row.start, start) for row in overlapping(start, length))


def refuse_moving(start: int, length: int) -> None:
    """Raise PlacementError where a byte of the range is pinned: such pages do not move."""
    held = overlapping(start, length)
    if held:
        raise PlacementError(
            errno.EBUSY,
            f"the memory is registered with cuda:{held[0].device}, and pinned pages do not move: close the "
            "Registration, move, and register again",
        )


def _forget_all() -> None:
    """A forked child has registered nothing, whatever its parent did."""
    global _table
    _table = ([], [])


os.register_at_fork(after_in_child=_forget_all)
