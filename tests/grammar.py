"""Our grammar of nodes and CPUs held against libnuma's: thousands of texts, and the differences by name.

Each name stands in docs/numa.md; a difference that none of them explains is a failure.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Set
from dataclasses import dataclass

from zerosys import PlacementError
from zerosys.nodes import parse

#: An answer: the members, or None for text that is refused.
Answer = frozenset[int] | None

_NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "7",
    "63",
    "1023",
    "1024",
    "65535",
    "65536",
    "4294967296",
    "00",
    "01",
    "0x1",
    "-0",
    "-1",
    "",
]
_PIECES = [
    *_NUMBERS,
    "all",
    "same",
    "0-1",
    "0-3",
    "1-3",
    "2-3",
    "3-1",
    "1-0",
    "0-0",
    "1-",
    "-",
    " 1",
    "1 ",
    "0-all",
    "x",
]
_FRONTS = ["", "", "", "!", "+", "!+", "+!", "!!", "! ", " "]


def texts(count: int, seed: int = 1) -> list[str]:
    """*count* different texts: what the grammar makes, and what it nearly makes."""
    choose = random.Random(seed)
    made: dict[str, None] = dict.fromkeys(
        ["all,0", *_PIECES, *(front + piece for front in _FRONTS for piece in _PIECES)]
    )
    while len(made) < count:
        parts = [_part(choose) for _ in range(choose.randint(1, 4))]
        made[choose.choice(_FRONTS) + ",".join(parts)] = None
    return list(made)[:count]


def _part(choose: random.Random) -> str:
    if choose.random() < 0.3:
        return choose.choice(_PIECES)
    low, high = choose.randint(0, 4), choose.randint(0, 4)
    return str(low) if choose.random() < 0.5 else f"{low}-{high}"


@dataclass(frozen=True)
class Machine:
    """What exists, what may be used (ours: "all"), and what libnuma takes for usable."""

    known: Set[int]
    usable: Set[int]
    theirs: Set[int]


def ours(text: str, machine: Machine) -> Answer:
    try:
        return parse(text, machine.known, everything=machine.usable)
    except (ValueError, PlacementError):
        return None


def difference(text: str, mine: Answer, theirs: Answer, machine: Machine) -> str | None:
    """The name of the difference of two answers to *text*; None if there is none; "" if it has no name."""
    if mine == theirs:
        return None
    if theirs == frozenset():
        return "the empty set"
    for name, pattern in _BY_TEXT.items():
        if re.search(pattern, text):
            return name
    if mine is None and (_backwards(text) or re.search(r"\d{6}", text)):
        return "backwards" if _backwards(text) else "too large"
    named = frozenset(int(number) for number in re.findall(r"\d+", text))
    if text.startswith("!") and machine.usable != frozenset(range(len(machine.known))):
        return "the rest of what"
    if mine is None:
        return ""
    if theirs is None and "+" not in text and named <= machine.known and not named <= machine.theirs:
        return "known but not usable"
    if mine - machine.theirs and theirs == mine & machine.theirs:
        return "known but not usable"
    if ("all" in text or "+" in text) and machine.usable != machine.theirs:
        return "what is usable"
    return ""


_BY_TEXT = {
    "other bases": r"0x|(?<!\d)0\d",
    "signs": r"(^|[,!+ ])-\d|-[-+]",
    "blanks": r"\s",
    "all before the end": r"all,",
}


def _backwards(text: str) -> bool:
    return any(int(high) < int(low) for low, high in re.findall(r"(\d+)-(\d+)", text))


def compared(count: int, referee: Callable[[str], Answer], machine: Machine) -> dict[str | None, list[str]]:
    """The texts by the name of their difference."""
    found: dict[str | None, list[str]] = {}
    for text in texts(count):
        name = difference(text, ours(text, machine), referee(text), machine)
        found.setdefault(name, []).append(text)
    return found
