"""What does an idle relay of zerosys.pumps.aio cost in memory, 1,000 of them in one process?

The figure is MiB: the resident memory of a process of its own that has taken 1,000 connections, made
1,000 more, and relays between them, on asyncio. Every relay is proved alive by a byte each way before
and after. Beside it the same process without relays (the interpreter, asyncio and the sockets alone),
and a thread for each connection, as threaded relays have.
"""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.common import HERE, Bar, Row, main

CHILD = """
import asyncio, os, resource, socket, sys, threading

port, far, count, how = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

def ends():
    pair = socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", far))
    for end in pair:
        end.setblocking(how == "threads")
    return pair

def resident():
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

def copy(src, dst):
    while data := src.recv(1 << 16):
        dst.sendall(data)

async def main():
    from zerosys.pumps import aio
    pairs = [ends() for _ in range(count)]
    if how == "zerosys":
        relays = [asyncio.create_task(aio.relay(a, b)) for a, b in pairs]
    elif how == "threads":
        for a, b in pairs:
            for way in ((a, b), (b, a)):
                threading.Thread(target=copy, args=way, daemon=True).start()
    await asyncio.sleep(0.1)
    print("joined", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(resident(), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    os._exit(0)

asyncio.run(main())
"""


def exchange(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """A byte each way through every relay."""
    for near, far in pairs:
        near.sendall(b"x")
        far.sendall(b"y")
    for near, far in pairs:
        if (near.recv(1), far.recv(1)) != (b"y", b"x"):
            raise AssertionError("a relay does not carry")


def resident(how: str, count: int) -> Callable[[], float]:
    """MiB of a process with *count* relays made the way *how*."""

    def measure() -> float:
        with ExitStack() as stack:
            listeners = [
                stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=count)) for _ in range(2)
            ]
            ports = [str(listener.getsockname()[1]) for listener in listeners]
            command = [sys.executable, "-c", CHILD, *ports, str(count), how]
            child = stack.enter_context(
                subprocess.Popen(
                    command, cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            assert child.stdin and child.stdout
            pairs = []
            for _ in range(count):
                near, far = (stack.enter_context(listener.accept()[0]) for listener in listeners)
                near.settimeout(30)
                far.settimeout(30)
                pairs.append((near, far))
            if child.stdout.readline() != "joined\n":
                raise AssertionError("the relays did not start")
            if how != "none":
                exchange(pairs)
            child.stdin.write("\n")
            child.stdin.flush()
            kib = int(child.stdout.readline())
            if how != "none":
                exchange(pairs)
            child.stdin.write("\n")
            child.stdin.flush()
            return kib / 1024

    return measure


def allow_descriptors() -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    allow_descriptors()
    count = 20 if quick else 1000
    rows = [
        Row("zerosys, 1,000 idle relays", resident("zerosys", count)),
        Row("sockets alone, no relay", resident("none", count)),
        Row("two threads a relay", resident("threads", count)),
    ]
    yield rows, [Bar(rows[0].name, None, plus=40.0)]


if __name__ == "__main__":
    main("relay_idle", "MiB resident", build)
