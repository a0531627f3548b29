"""Sets of nodes or CPUs in numactl's writing: ``0,2-5``, ``all``, ``!1``, ``+0-1``, ``same``, ``cuda:0``."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from operator import index

from zerosys.errors import PlacementError

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set
    from typing import SupportsIndex, TypeAlias

#: An int, text, or an iterable of ints; what has a node, such as an Affinity, is an int too.
Spec: TypeAlias = "SupportsIndex | str | Iterable[SupportsIndex]"

#: A number past this is a slip, and a range up to it would fill memory (kernels end at 8192 CPUs).
HIGHEST = 65535

#: Selectors whose name may hold commas: such a one takes all that follows it.
_PATHS = ("file:", "block:")


def parse_list(text: str, highest: int = HIGHEST) -> frozenset[int]:
    """Read ``0,2-5``, as in sysfs and on numactl's command line; nothing at all is the empty set.

    Raises ValueError that names the part that is no number up to *highest*, or range of such.
    """
    members: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        low, high = _range(part, text, highest)
        members.update(range(low, high + 1))
    return frozenset(members)


def _range(part: str, text: str, highest: int = HIGHEST) -> tuple[int, int]:
    """The two ends that *part* of *text* names; a single number is both."""
    first, dash, last = (piece.strip() for piece in part.partition("-"))
    if not _is_number(first, highest) or (dash and not _is_number(last, highest)):
        raise ValueError(
            f"{part.strip()[:80]!r} in {text[:80]!r} is neither a number up to {highest} "
            "nor a range such as 2-5"
        )
    low, high = int(first), int(last if dash else first)
    if high < low:
        raise ValueError(f"{part.strip()!r} in {text!r} runs backwards: write {high}-{low}")
    return low, high


def _is_number(text: str, highest: int) -> bool:
    # int() would also take "1_0", "+1" and the digits of every script; 010 is 8 to libnuma.
    plain = text.isascii() and text.isdigit() and len(text) <= 5 and (text == "0" or text[0] != "0")
    return plain and int(text) <= highest


def parse(
    spec: Spec,
    known: Set[int] | None = None,
    *,
    what: str = "node",
    everything: Set[int] | None = None,
    previous: Set[int] | None = None,
    select: Callable[[str], Iterable[int]] | None = None,
) -> frozenset[int]:
    """The set that *spec* means: an int, an iterable of ints, or text.

    Text is a list of numbers and ranges, "all", or a selector such as "cuda:0" (*select*
    gives its members), joined by commas; a selector of a path takes all that follows. A
    "+" in front counts within *everything*: "+0" is its first member. A "!" before
    that means all of *everything* but these. "same" is *previous*, the set that was named before.

    *known* are the numbers that exist. Both ends of a range must; gaps between
    them are skipped. None checks nothing. *everything*, *known* unless told, is what
    "all" means: those that may be used.

    Raises PlacementError(ENODEV) for a member that does not exist, ValueError for text
    that cannot be read, for the empty set and for negative numbers, TypeError for what is
    no whole number (1.5, True).
    """
    if isinstance(spec, str):
        usable = known if everything is None else everything
        members = _Text(spec, what, known, usable, previous, select).members()
    elif isinstance(spec, Iterable):  # first: an array of numbers claims to be one, too
        members = frozenset(_member(item, what) for item in spec)
    else:
        members = frozenset([_member(spec, what)])
    if not members:
        said = f"{spec!r} is " if isinstance(spec, str) and spec.strip() else ""
        raise ValueError(f"{said}an empty set of {what}s: name at least one")
    _check(members, known, what)
    return members


def is_plain(text: str) -> bool:
    """Whether *text* holds numbers and ranges alone, which need no machine to be read."""
    return not text.strip(" \n\t0123456789,-")


class _Text:
    """One set as text, and what its words refer to."""

    def __init__(
        self,
        text: str,
        what: str,
        known: Set[int] | None,
        everything: Set[int] | None,
        previous: Set[int] | None,
        select: Callable[[str], Iterable[int]] | None,
    ) -> None:
        self.text, self.what, self.known = text, what, known
        self.everything, self.previous, self.select = everything, previous, select

    def members(self) -> frozenset[int]:
        words = self.text.strip()
        if words == "same":
            if self.previous is None:
                raise ValueError(f'"same" repeats the {self.what}s that were named before, and none were')
            return frozenset(self.previous)
        inverse, words = words[:1] == "!", words.removeprefix("!").lstrip()
        relative, words = words[:1] == "+", words.removeprefix("+").lstrip()
        found: set[int] = set()
        for part in _parts(words):
            found.update(self._part(part, relative))
        if inverse and found:  # "!" alone forgot what to leave out
            _check(found, self.known, self.what)
            return self._all() - found
        return frozenset(found)

    def _part(self, part: str, relative: bool) -> Iterable[int]:
        if part == "all":
            return self._all()
        if part[:1].isalpha():
            return self._selected(part)
        low, high = _range(part, self.text)
        if relative:
            return self._counted(low, high)
        if self.known is None:
            return range(low, high + 1)
        return self.known & frozenset(range(low, high + 1)) | {low, high}

    def _counted(self, low: int, high: int) -> list[int]:
        usable = sorted(self._all())
        if high >= len(usable):
            raise PlacementError(
                errno.ENODEV,
                f"{self.text!r} asks for {self.what} +{high}, counted from +0, "
                f"and {len(usable)} may be used: {format(usable)}",
            )
        return usable[low : high + 1]

    def _selected(self, part: str) -> Iterable[int]:
        if ":" not in part or self.select is None:
            raise ValueError(
                f"{part[:80]!r} in {self.text[:80]!r} is neither numbers, nor all, nor same"
                + (", nor a selector such as cuda:0 or netdev:eth0" if self.select else "")
            )
        return self.select(part)

    def _all(self) -> frozenset[int]:
        if self.everything is None:
            raise ValueError(f'"all", "+" and "!" need a machine to ask: name the {self.what}s')
        return frozenset(self.everything)


def _parts(words: str) -> Iterator[str]:
    """The pieces between commas, the last one whole where it is a path."""
    while words:
        if words.lstrip().startswith(_PATHS):
            yield words.strip()
            return
        part, comma, words = words.partition(",")
        yield part.strip()
        if comma and not words.strip():
            yield ""  # a comma at the end: a part is missing, as it is between two


def _check(members: Set[int], known: Set[int] | None, what: str) -> None:
    if known is not None and not members <= known:
        raise PlacementError(
            errno.ENODEV,
            f"{what} {format(members - known)} does not exist; this machine's {what}s: {format(known)}",
        )


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
