"""A file into a socket: moved by pump(), and copied by read and send, by size."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable

from zerosys._memfd import memfd_create
from zerosys.cli.bench.measure import Measure, check, row, seconds
from zerosys.pumps import pump
from zerosys.sizes import show_size

_SIZES = (64 << 10, 1 << 20, 64 << 20)
_CHUNK = 256 << 10


def measures(rounds: int, sizes: tuple[int, ...] = _SIZES) -> list[Measure]:
    """GiB/s from memory that is a file to a process that receives it, for each size and way."""
    rows = []
    for size in sizes:
        figures: dict[str, list[float]] = {way: [] for way in _WAYS}
        for _ in range(rounds):
            for way, send in _WAYS.items():
                figures[way].append(_once(send, size))
        rows += [row(f"{show_size(size)} {way}", taken) for way, taken in figures.items()]
    return [Measure("file to another process's socket", "GiB/s", True, tuple(rows))]


def _copied(file: int, sock: socket.socket, size: int) -> None:
    offset = 0
    while offset < size and (part := os.pread(file, _CHUNK, offset)):
        sock.sendall(part)
        offset += len(part)


def _moved(file: int, sock: socket.socket, size: int) -> None:
    result = pump(file, sock, size, offset_src=0)
    check(result.copied == 0, "moving")


_WAYS: dict[str, Callable[[int, socket.socket, int], None]] = {
    "moved by pump()": _moved,
    "read and sent": _copied,
}


def _once(send: Callable[[int, socket.socket, int], None], size: int) -> float:
    repeats = max(1, (16 << 20) // size)
    file = memfd_create("zerosys-bench")
    ours, theirs = socket.socketpair()
    try:
        os.truncate(file, size)
        answers, told = multiprocessing.Pipe(duplex=False)
        other = multiprocessing.get_context("fork").Process(
            target=_receive, args=(theirs, ours, told), daemon=True
        )
        other.start()
        theirs.close()
        told.close()

        def work() -> None:
            for _ in range(repeats):
                send(file, ours, size)
            ours.shutdown(socket.SHUT_WR)
            check(answers.recv() == size * repeats, "sending")

        took = seconds(work)
        other.join()
        return size * repeats / took / (1 << 30)
    finally:
        os.close(file)
        ours.close()
        theirs.close()


def _receive(sock: socket.socket, sender: socket.socket, told: multiprocessing.connection.Connection) -> None:
    sender.close()
    place = bytearray(_CHUNK)
    count = 0
    while got := sock.recv_into(place):
        count += got
    told.send(count)
