"""Both event loops, and connections on them."""

import asyncio
import socket
from collections.abc import Callable, Coroutine

import pytest
import uvloop

RUNNERS = {"asyncio": asyncio.run, "uvloop": uvloop.run}

uvloop.run(asyncio.sleep(0))  # its first loop opens what it keeps for all

on_both_loops = pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS)
Runner = Callable[[Coroutine], object]


def streams(n: int = 2) -> list[tuple[socket.socket, socket.socket]]:
    """*n* connections, non-blocking at both ends."""
    pairs = [socket.socketpair() for _ in range(n)]
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
    return pairs


def close(pairs) -> None:
    for pair in pairs:
        for end in pair:
            end.close()


async def read_all(sock: socket.socket) -> bytes:
    loop, parts = asyncio.get_running_loop(), []
    while part := await loop.sock_recv(sock, 1 << 18):
        parts.append(part)
    return b"".join(parts)


async def send_all(sock: socket.socket, data: bytes) -> None:
    """Send *data*, and that there is no more."""
    await asyncio.get_running_loop().sock_sendall(sock, data)
    sock.shutdown(socket.SHUT_WR)


async def stalled(task: asyncio.Task, moving: Callable[[], int]) -> None:
    """Return when *moving*, a number that grows, has stopped to; fail with *task* if that fails."""
    seen = -1
    while (now := moving()) != seen and not task.done():
        seen = now
        await asyncio.sleep(0.05)
    if task.done():
        task.result()
