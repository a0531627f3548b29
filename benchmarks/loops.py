"""Loops over one call, in Python and in C, for the questions that count nanoseconds.

Python rows are loops of ten calls with local names, so that the call is measured and not the ``for``. Every
call's answer is checked: in C each time, in Python before the loop.
"""

import ctypes
import time
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import NamedTuple, Protocol, cast

from benchmarks.common import Bar, Row

CALLS = 1000  # a slice, about 0.3 ms
UNROLL = 10
Loop = Callable[[int], float]  # nanoseconds of n calls


class Call(NamedTuple):
    """One call: a C loop ("function argument ..."), the same in Python by who offers it, and its bar."""

    c: str | None
    python: dict[str, str]
    answer: object
    plus: float  # nanoseconds that the wrapper may add to C, or take where there is no C
    prepare: str | None = None  # the thing's method that makes ready for n calls, untimed
    over: str | None = None  # a list among the names: Python's loop takes "item" from it


class Things(Protocol):
    """What the calls work on: arguments of the C loops by name, names of the Python loops."""

    def names(self) -> dict[str, object]: ...


def python_loop(code: str, answer: object, names: dict[str, object], over: str | None = None) -> Loop:
    """A loop over *code*, which must answer *answer*."""
    heads = (f"for item in {over}[:n]:", 1) if over else (f"for _ in repeat(None, n // {UNROLL}):", UNROLL)
    source = [
        f"def loop(n, {', '.join(f'{name}={name}' for name in names)}):",
        "    start = clock()",
        f"    {heads[0]}",
        *[f"        {code}"] * heads[1],
        "    return clock() - start",
    ]
    space = {**names, "clock": time.perf_counter_ns, "repeat": repeat}
    got = eval(code, {**space, "item": next(iter(cast(Iterable[object], names[over])))} if over else space)
    if got != answer:
        raise AssertionError(f"{code} gave {got}, not {answer}")
    exec("\n".join(source), space)
    return cast(Loop, space["loop"])


def c_loop(library: ctypes.CDLL, call: str, things: object) -> Loop:
    """A loop in C over *call*."""
    name, *words = call.split()
    function = getattr(library, name)
    function.restype = ctypes.c_longlong
    values = [getattr(things, word) for word in words]
    # A bare int would become a C int: right for a descriptor, too short for an address.
    arguments = [
        value.encode()
        if isinstance(value, str)
        else ctypes.c_long(value)
        if isinstance(value, int)
        else value
        for value in values
    ]

    def loop(n: int) -> float:
        taken: int = function(ctypes.c_long(n), *arguments)
        if taken < 0:
            raise AssertionError(f"C {call}: wrong answer")
        return taken

    return loop


def row(name: str, loop: Loop, calls: int, prepare: Callable[[int], None] | None) -> Row:
    """A row of nanoseconds a call."""

    def measure() -> float:
        if prepare:
            prepare(calls)
        return loop(calls) / calls

    return Row(name, measure)


def table(
    calls: dict[str, Call], things: Things, library: ctypes.CDLL, quick: bool
) -> tuple[list[Row], list[Bar]]:
    """Every way of every call, and each of ours against C."""
    rows, bars, n, names = [], [], UNROLL if quick else CALLS, things.names()
    for what, call in calls.items():
        prepare = getattr(things, call.prepare) if call.prepare else None
        loops = {"C": c_loop(library, call.c, things)} if call.c else {}
        for who, code in call.python.items():
            if prepare:
                prepare(UNROLL)  # for the call that checks the answer
            loops[who] = python_loop(code, call.answer, names, call.over)
        rows += [row(f"{who} {what}", loop, n, prepare) for who, loop in loops.items()]
        bars.append(Bar(f"zerosys {what}", f"C {what}" if call.c else None, plus=call.plus))
    return rows, bars
