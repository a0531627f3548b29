"""Two processes, one at each end, each on a CPU of its own: what the job took, and what each of them."""

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

GIB = float(1 << 30)
CPUS = sorted(os.sched_getaffinity(0))
RECEIVE = 256 << 10
_REPORTS: dict[int, int] = {}  # where each child will tell its CPU seconds


class Cost(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float  # of the worker


def start(work: Callable[[], object], cpu: int) -> int:
    """Run *work* in a child on the CPU of that index; its pid. What fails there fails in finish()."""
    sys.stdout.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        _REPORTS[pid] = reader
        return pid
    try:
        os.sched_setaffinity(0, {CPUS[cpu % len(CPUS)]})
        before = time.process_time()  # the fork itself is not the job
        work()
        os.write(writer, str(time.process_time() - before).encode())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def finish(pid: int) -> float:
    """CPU seconds that the child's work took."""
    with open(_REPORTS.pop(pid)) as report:
        taken = report.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise AssertionError("a child failed; see above")
    return float(taken)


def both(worker: Callable[[], object], peer: Callable[[], object]) -> Cost:
    """Run *worker* and *peer* to their ends."""
    began = time.perf_counter()
    pids = start(worker, 0), start(peer, 1)
    cpu = finish(pids[0])
    finish(pids[1])
    return Cost(time.perf_counter() - began, cpu)


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


def receive(sock: socket.socket, size: int, check: bytes = b"") -> None:
    """Take exactly *size* bytes; each block of *check*'s length is compared with it."""
    place = bytearray(RECEIVE)
    got = 0
    while got < size and (n := sock.recv_into(place)):
        if check and bytes(place[:n]) != _expected(check, got, n):
            raise AssertionError(f"wrong bytes after {got}")
        got += n
    if got != size:
        raise AssertionError(f"{got} bytes came, not {size}")


def _expected(block: bytes, at: int, n: int) -> bytes:
    start = at % len(block)
    return (block * (2 + n // len(block)))[start : start + n]
