"""What does a wrapper add to its system call? Against the same call in a C loop and against os.*.

Figures are nanoseconds a call; a "pair" (fill and drain) is given for both calls together, and its
bar is the sum of two. Python rows are loops of ten calls with local names, so that the call is
measured and not the ``for``. Every call's answer is checked: in C each time, in Python before the loop.

The call that takes a buffer and has a twin in ``os`` is vmsplice from a pipe's reading end: it fills the
caller's bytearray from the pipe, as ``os.readv`` does. Both take one byte a call from the same full pipe,
which is filled outside the timed part. ``os.readv`` takes no buffer but a list of them; the bar is against
the call as one writes it, ``[room]`` included, and the row with a list made beforehand stands beside it.
"""

import ctypes
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat
from typing import NamedTuple, cast

from benchmarks.common import Bar, Row, c_library, main
from zerosys import _splice

CALLS = 1000  # a slice, about 0.3 ms
UNROLL = 10
Loop = Callable[[int], float]  # nanoseconds of n calls


class Things:
    """The descriptors, buffers and names that the calls work on."""

    def __init__(self, stack: ExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        self.old, self.new = f"{folder}/old", f"{folder}/new"
        self.null = os.open("/dev/null", os.O_WRONLY)
        self.file = os.open(self.old, os.O_RDWR | os.O_CREAT)
        self.into = os.open(f"{folder}/into", os.O_RDWR | os.O_CREAT)
        os.write(self.file, b"x")
        (self.r, self.w), (self.r2, self.w2), (self.full, self.filler) = os.pipe(), os.pipe(), os.pipe()
        os.write(self.w2, b"x")  # r2 always holds one byte: the source of tee
        for fd in (self.null, self.file, self.into, self.r, self.w, self.r2, self.w2, self.full, self.filler):
            stack.callback(os.close, fd)
        self.byte, self.room = b"x", bytearray(1)
        self.rooms = [self.room]

    def fill(self, n: int) -> None:
        """Have *n* bytes wait in ``full``."""
        os.write(self.filler, bytes(max(0, n - _splice.pipe_occupancy(self.full))))


class Call(NamedTuple):
    """One call: a C loop ("function argument ..."), the same in Python by who offers it, and its bar."""

    c: str
    python: dict[str, str]
    answer: object
    plus: float  # nanoseconds that the wrapper may add
    prepare: bool = False  # bytes wait in "full" before each slice


DRAIN = "splice(r, null, 1)"
CALLS_OF = {
    "splice, length 0": Call("splice_0 r w", {
        "os": "os_splice(r, w, 0)", "zerosys": "splice(r, w, 0)",
        "ctypes": "c_splice(r, None, w, None, 0, 0)"}, 0, 75),
    "splice file-pipe-null, pair": Call("splice_pair file w r null", {
        "os": "os_splice(file, w, 1, 0) + os_splice(r, null, 1)",
        "zerosys": f"splice(file, w, 1, 0) + {DRAIN}"}, 2, 150),
    "sendfile 1 B to null": Call("sendfile_1 null file", {
        "os": "os_sendfile(null, file, 0, 1)", "zerosys": "sendfile(null, file, 0, 1)"}, 1, 75),
    "tee, length 0": Call("tee_0 r2 w", {"zerosys": "tee(r2, w, 0)"}, 0, 75),
    "tee 1 B + splice, pair": Call("tee_pair r2 w r null", {"zerosys": f"tee(r2, w, 1) + {DRAIN}"}, 2, 150),
    "vmsplice 1 B + splice, pair": Call("vmsplice_pair w r null", {
        "zerosys": f"vmsplice(w, room) + {DRAIN}"}, 2, 165),
    # A read-only buffer costs a look at the pipe's direction first, in C as here.
    "vmsplice of bytes + splice, pair": Call("vmsplice_bytes_pair w r null", {
        "zerosys": f"vmsplice(w, byte) + {DRAIN}"}, 2, 165),
    "vmsplice 1 B from a pipe": Call("vmsplice_read full", {
        "zerosys": "vmsplice(full, room)", "os.readv in place of": "os_readv(full, [room])",
        "os.readv, list made before, for": "os_readv(full, rooms)"}, 1, 90, prepare=True),
    "copy_file_range 1 B": Call("copy_file_range_1 file into", {
        "os": "os_copy_file_range(file, into, 1, 0, 0)",
        "zerosys": "copy_file_range(file, into, 1, 0, 0)"}, 1, 75),
    "pipe_capacity": Call("pipe_capacity r", {
        "fcntl": f"fcntl(r, {fcntl.F_GETPIPE_SZ})", "zerosys": "pipe_capacity(r)"}, 65536, 75),
    "set_pipe_capacity (get and set)": Call("set_pipe_capacity r", {
        "zerosys": "set_pipe_capacity(r, 65536)"}, 65536, 75),
    "pipe_occupancy": Call("pipe_occupancy r2", {"zerosys": "pipe_occupancy(r2)"}, 1, 75),
    "linkat + unlink, pair": Call("linkat_pair old new", {
        "os": "link(old, new) or unlink(new)", "zerosys": "linkat(old, new) or unlink(new)"}, None, 150),
}
AGAINST = [
    ("splice, length 0", "os", 1.05), ("splice file-pipe-null, pair", "os", 1.05),
    ("sendfile 1 B to null", "os", 1.0), ("vmsplice 1 B from a pipe", "os.readv in place of", 0.85)]


def names_of(things: Things) -> dict[str, object]:
    """What the Python loops may call and use."""
    c_splice = ctypes.CDLL(None, use_errno=True).splice
    end = (ctypes.c_int, ctypes.c_void_p)
    c_splice.argtypes = (*end, *end, ctypes.c_size_t, ctypes.c_uint)
    calls = ("splice", "sendfile", "tee", "vmsplice", "copy_file_range", "linkat",
             "pipe_capacity", "set_pipe_capacity", "pipe_occupancy")
    theirs = {f"os_{name}": getattr(os, name) for name in ("splice", "sendfile", "copy_file_range", "readv")}
    return {**vars(things), **{name: getattr(_splice, name) for name in calls}, **theirs,
            "c_splice": c_splice, "fcntl": fcntl.fcntl, "link": os.link, "unlink": os.unlink}


def python_loop(code: str, answer: object, names: dict[str, object]) -> Loop:
    """A loop over *code*, which must answer *answer*."""
    source = [f"def loop(n, {', '.join(f'{name}={name}' for name in names)}):",
              "    start = clock()", f"    for _ in repeat(None, n // {UNROLL}):",
              *[f"        {code}"] * UNROLL, "    return clock() - start"]
    space = {**names, "clock": time.perf_counter_ns, "repeat": repeat}
    got = eval(code, space)
    if got != answer:
        raise AssertionError(f"{code} gave {got}, not {answer}")
    exec("\n".join(source), space)
    return cast(Loop, space["loop"])


def c_loop(library: ctypes.CDLL, call: str, things: Things) -> Loop:
    """A loop in C over *call*."""
    name, *words = call.split()
    function = getattr(library, name)
    function.restype = ctypes.c_longlong
    values = [getattr(things, word) for word in words]
    arguments = [value.encode() if isinstance(value, str) else value for value in values]

    def loop(n: int) -> float:
        taken: int = function(ctypes.c_long(n), *arguments)
        if taken < 0:
            raise AssertionError(f"C {call}: wrong answer")
        return taken

    return loop


def row(name: str, loop: Loop, calls: int, prepare: Callable[[int], None] | None) -> Row:
    def measure() -> float:
        if prepare:
            prepare(calls)
        return loop(calls) / calls

    return Row(name, measure)


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    rows, n, library = [], UNROLL if quick else CALLS, c_library("wrapper_cost")
    bars = [Bar(f"zerosys {what}", f"C {what}", plus=call.plus) for what, call in CALLS_OF.items()]
    bars += [Bar(f"zerosys {what}", f"{rival} {what}", factor) for what, rival, factor in AGAINST]
    with ExitStack() as stack:
        things = Things(stack)
        names = names_of(things)
        for what, call in CALLS_OF.items():
            prepare = things.fill if call.prepare else None
            things.fill(len(call.python))  # for the calls that check the answers
            loops = {"C": c_loop(library, call.c, things),
                     **{who: python_loop(code, call.answer, names) for who, code in call.python.items()}}
            rows += [row(f"{who} {what}", loop, n, prepare) for who, loop in loops.items()]
        yield rows, bars


if __name__ == "__main__":
    main("wrapper_cost", "ns a call", build, slices=25)
