"""Sets of nodes or CPUs in numactl's and the kernel's writing: ``0,2-5``, ``all``."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Set
from operator import index
from typing import SupportsIndex, TypeAlias

from zerosys.errors import PlacementError

Spec: TypeAlias = "SupportsIndex | str | Iterable[SupportsIndex]"

#: A number past this is a slip, and a range up to it would fill memory (kernels end at 8192 CPUs).
HIGHEST = 65535


def parse_list(text: str, highest: int = HIGHEST) -> frozenset[int]:
    """Read ``0,2-5``, as in sysfs and on numactl's command line; nothing at all is the empty set.

    Raises ValueError that names the part that is no number up to *highest*, or range of such.
    """
    members: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not _is_number(first, highest) or (dash and not _is_number(last, highest)):
            raise ValueError(
                f"{part.strip()[:80]!r} in {text[:80]!r} is neither a number up to {highest} "
                "nor a range such as 2-5"
            )
        low, high = int(first), int(last if dash else first)
        if high < low:
            raise ValueError(f"{part.strip()!r} in {text!r} runs backwards: write {high}-{low}")
        members.update(range(low, high + 1))
    return frozenset(members)


def _is_number(text: str, highest: int) -> bool:
    # int() would also take "1_0", "+1" and the digits of every script
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= highest


def parse(spec: Spec, known: Set[int] | None = None, *, what: str = "node") -> frozenset[int]:
    """The set that *spec* means: an int, ``"0,2-5"``, ``"all"``, or an iterable of ints.

    *known* is the set to choose from, and what "all" means; None checks nothing and has
    no "all". Raises PlacementError(ENODEV) for a member that is not in it, ValueError
    for text that cannot be read, for the empty set and for negative numbers, TypeError
    for what is no whole number (1.5, True).
    """
    members = _members(spec, known, what)
    if not members:
        raise ValueError(f"an empty set of {what}s: name at least one")
    if known is not None and not members <= known:
        raise PlacementError(
            errno.ENODEV,
            f"{what} {format(members - known)} does not exist; this machine's {what}s: {format(known)}",
        )
    return members


def _members(spec: Spec, known: Set[int] | None, what: str) -> frozenset[int]:
    if isinstance(spec, str):
        if spec.strip() != "all":
            return parse_list(spec)
        if known is None:
            raise ValueError(f'"all" needs a machine to ask: name the {what}s')
        return frozenset(known)
    if isinstance(spec, Iterable):  # first: an array of numbers claims to be one, too
        return frozenset(_member(item, what) for item in spec)
    return frozenset([_member(spec, what)])


def _member(item: SupportsIndex, what: str) -> int:
    if isinstance(item, bool):
        raise TypeError(f"a {what} is a number, not {item}")
    number = index(item)
    if not 0 <= number <= HIGHEST:
        raise ValueError(f"a {what} is 0 to {HIGHEST}, not {number}")
    return number


def format(members: Iterable[int]) -> str:
    """Write a set as ``0,2-5``: ascending, ranges joined, the empty set as nothing."""
    parts: list[str] = []
    first = last = -2
    for number in [*sorted(set(members)), -1]:
        if number != last + 1:
            if first >= 0:
                parts.append(str(first) if first == last else f"{first}-{last}")
            first = number
        last = number
    return ",".join(parts)
