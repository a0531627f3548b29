"""What do 1,000 relays that all talk for a minute hold in descriptors and pipes, and does it grow?

A figure is a number of descriptors of a process that runs 1,000 relays of zerosys.pumps.aio, with both of
their peers in it, on asyncio or uvloop: how many more there are at worst, looked at each second once
all relays have carried something, than at the beginning; and how many pipes its pool ever had, of 32.
The messages of every tenth are longer than a socket holds, so that pipes are asked for. Each is compared
where it arrives, both ways, and all bytes are counted again at the end by what the relays tell. One
round is a minute for each loop.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from benchmarks.common import HERE, Bar, Row, main
from benchmarks.relay_idle import allow_descriptors

MOST = 32  # pipes of a pool
CHILD = """
import asyncio, os, socket, sys
from zerosys.pumps import aio

count, seconds, how = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
DATA = bytes(range(251)) * 1300
pool = aio.PipePool(int(sys.argv[4]))

async def read(sock, size):
    loop, got = asyncio.get_running_loop(), b""
    while len(got) < size:
        part = await loop.sock_recv(sock, size - len(got))
        assert part, "the relay has ended"
        got += part
    return got

async def talk(near, far, n, until, begun):
    loop, word, sent = asyncio.get_running_loop(), DATA[n % 251:][:3000 if n % 10 else 300_000], 0
    while loop.time() < until or not sent:
        for one, other in ((near, far), (far, near)):
            await loop.sock_sendall(one, word)
            assert await read(other, len(word)) == word, "other bytes arrived"
            sent += len(word)
        if begun:
            begun.pop()
    near.shutdown(socket.SHUT_WR)
    far.shutdown(socket.SHUT_WR)
    return sent

async def watch(until, begun, seen):
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        await asyncio.sleep(min(1, seconds / 8))
        if not begun:
            seen.append((len(os.listdir("/proc/self/fd")), pool.pipes))

async def main():
    pairs = [(socket.socketpair(), socket.socketpair()) for _ in range(count)]
    for one, other in pairs:
        for end in (*one, *other):
            end.setblocking(False)
    relays = [asyncio.create_task(aio.relay(b, c, pool=pool)) for (_, b), (c, _) in pairs]
    until, begun, seen = asyncio.get_running_loop().time() + seconds, [None] * count, []
    talks = (talk(a, d, n, until, begun) for n, ((a, _), (_, d)) in enumerate(pairs))
    *sent, _ = await asyncio.gather(*talks, watch(until, begun, seen))
    told = sum(result.bytes for result in await asyncio.gather(*relays))
    assert told == sum(sent), f"{told} bytes of {sum(sent)} are told"
    assert pool.pipes == 0, "pipes are left"
    held = [descriptors for descriptors, _ in seen]
    print(max(held) - held[0], max(pipes for _, pipes in seen), told >> 20)

if how == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


class Crowd:
    """*count* relays for *seconds* on the event loop *how*."""

    def __init__(self, count: int, seconds: float, how: str) -> None:
        self._arguments = [str(count), str(seconds), how, str(MOST)]
        self._pipes = self._carried = 0.0

    def more(self) -> float:
        """Descriptors more than at the beginning."""
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *self._arguments],
            cwd=HERE.parent,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        more, self._pipes, self._carried = map(float, done.stdout.split())
        return more

    def pipes(self) -> float:
        """The most pipes of the last run."""
        return self._pipes

    def carried(self) -> float:
        """MiB of the last run."""
        return self._carried


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    allow_descriptors()
    rows, bars = [], []
    for how in ("asyncio", *(["uvloop"] if find_spec("uvloop") else [])):
        crowd = Crowd(20 if quick else 1000, 0.5 if quick else 60, how)
        held, pipes = Row(f"{how}: descriptors more", crowd.more), Row(f"{how}: pipes at most", crowd.pipes)
        rows += [held, pipes, Row(f"{how}: MiB carried", crowd.carried)]
        bars += [Bar(held.name, None, plus=2 * MOST), Bar(pipes.name, None, plus=MOST)]
    yield rows, bars


if __name__ == "__main__":
    main("relay_crowd", "as named", build)
