"""A file to a socket: pump() against the C loops, socket.sendfile and pread + sendall.

The sender is on one CPU, the receiver (recv of 256 KiB) on another; seconds a GiB, and the sender's CPU
seconds a GiB.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int, c_longlong

from benchmarks.common import Bar, Row, c_library, main
from benchmarks.forked import GIB, Cost, both, receive, tcp_pair
from zerosys import pump

BLOCK = os.urandom(1 << 20)
Pair = Callable[[], tuple[socket.socket, socket.socket]]
Way = Callable[[int, socket.socket, int], int]


def ways() -> dict[str, Way]:
    library = c_library("pump")
    for loop in (library.c_splice, library.c_sendfile):
        loop.restype, loop.argtypes = c_longlong, [c_int, c_int, c_longlong]
    return {
        "C splice": lambda file, sock, size: int(library.c_splice(file, sock.fileno(), size)),
        "C sendfile": lambda file, sock, size: int(library.c_sendfile(file, sock.fileno(), size)),
        "socket.sendfile": lambda file, sock, size: sock.sendfile(open(file, "rb", closefd=False)),
        "pread + sendall": _read_and_send,
        "zerosys": lambda file, sock, size: pump(file, sock, size, strict=True).bytes,
    }


def _read_and_send(file: int, sock: socket.socket, size: int) -> int:
    done = 0
    while data := os.pread(file, 256 << 10, done):
        sock.sendall(data)
        done += len(data)
    return done


class Job:
    """One way over one kind of socket. A run gives the time; the CPU row of it reads what that run took."""

    def __init__(self, way: Way, pair: Pair, file: int, size: int) -> None:
        self._way, self._pair, self._file, self._size = way, pair, file, size
        self._last: Cost | None = None

    def run(self, check: bytes = b"") -> float:
        near, far = self._pair()

        def send() -> None:
            far.close()
            os.lseek(self._file, 0, os.SEEK_SET)
            if self._way(self._file, near, self._size) != self._size:
                raise AssertionError("not all was sent")
            near.close()

        def take() -> None:
            near.close()
            receive(far, self._size, check)

        with near, far:
            self._last = both(send, take)
        return self._last.wall * GIB / self._size

    def cpu(self) -> float:
        assert self._last
        return self._last.cpu * GIB / self._size


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    size = (4 if quick else 512) << 20
    file = os.memfd_create("file")
    try:
        for _ in range(size >> 20):
            os.write(file, BLOCK)
        rows = []
        for kind, pair in (("TCP", tcp_pair), ("Unix", socket.socketpair)):
            for name, way in ways().items():
                job = Job(way, pair, file, size)
                job.run(BLOCK)  # untimed, and every byte compared
                rows += [Row(f"{name}, {kind}", job.run), Row(f"{name}, {kind}, CPU", job.cpu)]
        yield (
            rows,
            [
                Bar("zerosys, TCP", "socket.sendfile, TCP", 0.8),
                Bar("zerosys, TCP, CPU", "socket.sendfile, TCP, CPU", 0.8),
                Bar("zerosys, Unix, CPU", "pread + sendall, Unix, CPU", 0.4),
                *(Bar(f"zerosys, {kind}", f"C splice, {kind}", 1 / 0.97) for kind in ("TCP", "Unix")),
                *(Bar(f"zerosys, {kind}, CPU", f"C splice, {kind}, CPU", 1.05) for kind in ("TCP", "Unix")),
            ],
        )
    finally:
        os.close(file)


if __name__ == "__main__":
    main("pump_file", "seconds a GiB", build)
