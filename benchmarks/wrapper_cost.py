"""What does a wrapper of the splice family add to its system call, against C and against os.*?

Figures are nanoseconds a call; a "pair" (fill and drain) is given for both calls together, and its
bar is the sum of two. See loops.py for how they are taken.

The call that takes a buffer and has a twin in ``os`` is vmsplice from a pipe's reading end: it fills the
caller's bytearray from the pipe, as ``os.readv`` does. Both take one byte a call from the same full pipe,
which is filled outside the timed part. ``os.readv`` takes no buffer but a list of them; the bar is against
the call as one writes it, ``[room]`` included, and the row with a list made beforehand stands beside it.
"""

import ctypes
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from benchmarks.common import Bar, Row, c_library, main
from benchmarks.loops import CALLS, Call, table
from zerosys import _splice

DRAIN = "splice(r, null, 1)"
CALLS_OF = {
    "splice, length 0": Call(
        "splice_0 r w",
        {
            "os": "os_splice(r, w, 0)",
            "zerosys": "splice(r, w, 0)",
            "ctypes": "c_splice(r, None, w, None, 0, 0)",
        },
        0,
        75,
    ),
    "splice file-pipe-null, pair": Call(
        "splice_pair file w r null",
        {
            "os": "os_splice(file, w, 1, 0) + os_splice(r, null, 1)",
            "zerosys": f"splice(file, w, 1, 0) + {DRAIN}",
        },
        2,
        150,
    ),
    "sendfile 1 B to null": Call(
        "sendfile_1 null file",
        {"os": "os_sendfile(null, file, 0, 1)", "zerosys": "sendfile(null, file, 0, 1)"},
        1,
        75,
    ),
    "tee, length 0": Call("tee_0 r2 w", {"zerosys": "tee(r2, w, 0)"}, 0, 75),
    "tee 1 B + splice, pair": Call("tee_pair r2 w r null", {"zerosys": f"tee(r2, w, 1) + {DRAIN}"}, 2, 150),
    "vmsplice 1 B + splice, pair": Call(
        "vmsplice_pair w r null", {"zerosys": f"vmsplice(w, room) + {DRAIN}"}, 2, 165
    ),
    # A read-only buffer costs a look at the pipe's direction first, in C as here.
    "vmsplice of bytes + splice, pair": Call(
        "vmsplice_bytes_pair w r null", {"zerosys": f"vmsplice(w, byte) + {DRAIN}"}, 2, 165
    ),
    "vmsplice 1 B from a pipe": Call(
        "vmsplice_read full",
        {
            "zerosys": "vmsplice(full, room)",
            "os.readv in place of": "os_readv(full, [room])",
            "os.readv, list made before, for": "os_readv(full, rooms)",
        },
        1,
        90,
        prepare="fill",
    ),
    "copy_file_range 1 B": Call(
        "copy_file_range_1 file into",
        {"os": "os_copy_file_range(file, into, 1, 0, 0)", "zerosys": "copy_file_range(file, into, 1, 0, 0)"},
        1,
        75,
    ),
    "pipe_capacity": Call(
        "pipe_capacity r",
        {"fcntl": f"fcntl(r, {fcntl.F_GETPIPE_SZ})", "zerosys": "pipe_capacity(r)"},
        65536,
        75,
    ),
    "set_pipe_capacity (get and set)": Call(
        "set_pipe_capacity r", {"zerosys": "set_pipe_capacity(r, 65536)"}, 65536, 75
    ),
    "pipe_occupancy": Call("pipe_occupancy r2", {"zerosys": "pipe_occupancy(r2)"}, 1, 75),
    "linkat": Call(
        "linkat_each old c_links",
        {"os": "link(old, item)", "zerosys": "linkat(old, item)"},
        None,
        75,
        prepare="unlink",
        over="links",
    ),
}
AGAINST = [
    ("splice, length 0", "os", 1.05),
    ("splice file-pipe-null, pair", "os", 1.05),
    ("sendfile 1 B to null", "os", 1.0),
    ("vmsplice 1 B from a pipe", "os.readv in place of", 0.85),
]


class Ends:
    """The descriptors, buffers and names that the calls work on."""

    def __init__(self, stack: ExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        self.old, self.links = f"{folder}/old", [f"{folder}/new{i}" for i in range(CALLS)]
        self.c_links = (ctypes.c_char_p * CALLS)(*(name.encode() for name in self.links))
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

    def unlink(self, n: int) -> None:
        """Have the first *n* names of ``links`` free."""
        for name in self.links[:n]:
            with suppress(FileNotFoundError):
                os.unlink(name)

    def names(self) -> dict[str, object]:
        c_splice = ctypes.CDLL(None, use_errno=True).splice
        end = (ctypes.c_int, ctypes.c_void_p)
        c_splice.argtypes = (*end, *end, ctypes.c_size_t, ctypes.c_uint)
        ours = (
            "splice",
            "sendfile",
            "tee",
            "vmsplice",
            "copy_file_range",
            "linkat",
            "pipe_capacity",
            "set_pipe_capacity",
            "pipe_occupancy",
        )
        theirs = ("splice", "sendfile", "copy_file_range", "readv")
        return {
            **vars(self),
            **{name: getattr(_splice, name) for name in ours},
            **{f"os_{name}": getattr(os, name) for name in theirs},
            "c_splice": c_splice,
            "fcntl": fcntl.fcntl,
            "link": os.link,
        }


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    with ExitStack() as stack:
        rows, bars = table(CALLS_OF, Ends(stack), c_library("wrapper_cost"), quick)
        bars += [Bar(f"zerosys {what}", f"{rival} {what}", factor) for what, rival, factor in AGAINST]
        yield rows, bars


if __name__ == "__main__":
    main("wrapper_cost", "ns a call", build, slices=100)
