"""What a relay adds to a small message: relay() against the same in C, and against no relay at all.

A client sends 64 bytes and waits for them to come back, 10,000 times; the median round trip in microseconds.
"""

import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int, c_longlong

from benchmarks.common import Bar, Row, c_library, main
from benchmarks.forked import finish, start, tcp_pair
from zerosys import relay

MESSAGE = bytes(range(64))
Relay = Callable[[socket.socket, socket.socket], object]


def echo(sock: socket.socket) -> None:
    while data := sock.recv(64, socket.MSG_WAITALL):
        sock.sendall(data)


def ask(sock: socket.socket, times: int) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter_ns()
        sock.sendall(MESSAGE)
        if sock.recv(64, socket.MSG_WAITALL) != MESSAGE:
            raise AssertionError("another message came back")
        took.append(time.perf_counter_ns() - began)
    return statistics.median(took) / 1000


def round_trip(work: Relay | None, times: int) -> Callable[[], float]:
    def measure() -> float:
        client, a = tcp_pair()
        b, server = tcp_pair() if work else (a, a)
        for end in (client, a, b, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def echoing() -> None:
            for end in {client, a, b} - {server}:
                end.close()
            echo(server)

        def relaying() -> None:
            client.close()
            server.close()
            assert work
            work(a, b)

        children = [start(echoing, 0)] + ([start(relaying, 1)] if work else [])
        for end in {a, b, server}:
            end.close()
        with client:
            median = ask(client, times)
        for pid in children:
            finish(pid)
        return median

    return measure


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    library = c_library("pump")
    library.c_relay.restype, library.c_relay.argtypes = c_longlong, [c_int, c_int]
    times = 50 if quick else 10_000
    rows = [
        Row("no relay", round_trip(None, times)),
        Row("C splice", round_trip(lambda a, b: library.c_relay(a.fileno(), b.fileno()), times)),
        Row("zerosys", round_trip(relay, times)),
    ]
    yield rows, [Bar("zerosys", "C splice", 1.2)]


if __name__ == "__main__":
    main("pump_latency", "microseconds a round trip, median", build)
