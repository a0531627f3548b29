"""Below which size is sendfile the better way from a file to a socket, and what does pump() add to it?

CPU microseconds of the sender for one file, over Unix and TCP sockets. The answer is a constant of
zerosys/_transfer_stage.h, and the bars say why it is that.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ctypes import c_int, c_longlong

from benchmarks.common import Bar, Row, c_library, main
from benchmarks.forked import finish, start, tcp_pair
from zerosys import pump

KINDS = {"Unix": socket.socketpair, "TCP": tcp_pair}
Send = Callable[[int, socket.socket, int], int]


def swallow(sock: socket.socket) -> None:
    place = bytearray(256 << 10)
    while sock.recv_into(place):
        pass


def cost(send: Send, file: int, sock: socket.socket, size: int, times: int) -> Callable[[], float]:
    def measure() -> float:
        before = time.process_time_ns()
        for _ in range(times):
            os.lseek(file, 0, os.SEEK_SET)
            if send(file, sock, size) != size:
                raise AssertionError("not all was sent")
        return (time.process_time_ns() - before) / 1000 / times

    return measure


def by_socket(file: int, sock: socket.socket, size: int) -> int:
    with open(file, "rb", closefd=False) as source:
        return sock.sendfile(source, 0, size)


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    library = c_library("pump")
    for loop in (library.c_splice, library.c_sendfile):
        loop.restype, loop.argtypes = c_longlong, [c_int, c_int, c_longlong]
    ways: dict[str, Send] = {
        "C splice": lambda file, sock, size: int(library.c_splice(file, sock.fileno(), size)),
        "C sendfile": lambda file, sock, size: int(library.c_sendfile(file, sock.fileno(), size)),
        "socket.sendfile": by_socket,
        "zerosys": lambda file, sock, size: pump(file, sock, size, strict=True).bytes,
    }
    rows = []
    with ExitStack() as stack:
        for kind, pair in KINDS.items():
            near, far = pair()
            stack.enter_context(near)

            def take(near: socket.socket = near, far: socket.socket = far) -> None:
                near.close()
                swallow(far)

            pid = start(take, 1)
            far.close()
            stack.callback(lambda pid=pid, near=near: (near.close(), finish(pid)))
            for size in (4 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20):
                file = os.memfd_create("file")
                stack.callback(os.close, file)
                os.write(file, os.urandom(size))
                times = 2 if quick else max(10, (32 << 20) // size)
                what = f"{size >> 10} KiB, {kind}"
                rows += [
                    Row(f"{name}, {what}", cost(send, file, near, size, times)) for name, send in ways.items()
                ]
        yield (
            rows,
            [
                *(
                    Bar(f"C sendfile, {n} KiB, {kind}", f"C splice, {n} KiB, {kind}")
                    for n in (64, 256)
                    for kind in KINDS
                ),
                *(Bar(f"C splice, 4096 KiB, {kind}", f"C sendfile, 4096 KiB, {kind}") for kind in KINDS),
            ],
        )


if __name__ == "__main__":
    main("pump_small", "CPU microseconds a file", build)
