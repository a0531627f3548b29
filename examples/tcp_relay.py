"""A TCP relay: who connects here talks to a server there; a hundred at once, on four pipes and one thread.

python examples/tcp_relay.py
"""

import asyncio
import os
import socket

from zerosys.pumps import aio

CLIENTS, SIZE = 100, 200_000


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The far server: answers with what it got, backwards, after the client's end."""
    writer.write((await reader.read(-1))[::-1])
    await writer.drain()
    writer.close()


async def join(client: socket.socket, far: tuple[str, int], pool: aio.PipePool) -> int:
    """Join *client* to a connection of its own; the bytes that were moved."""
    with client, socket.socket() as server:
        server.setblocking(False)
        await asyncio.get_running_loop().sock_connect(server, far)
        # The end of one side is passed on to the other, after the last byte before it.
        result = await aio.relay(client, server, pool=pool, strict=True, stall_timeout=30)
    return result.forth.moved + result.back.moved


async def ask(near: tuple[str, int], question: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*near)
    writer.write(question)
    writer.write_eof()
    answer = await reader.read(-1)
    writer.close()
    return answer


async def main() -> None:
    loop, pool = asyncio.get_running_loop(), aio.PipePool(4)
    with socket.create_server(("127.0.0.1", 0), backlog=CLIENTS) as listener:
        listener.setblocking(False)
        async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
            far = server.sockets[0].getsockname()
            questions = [os.urandom(SIZE) for _ in range(CLIENTS)]
            asked = [asyncio.create_task(ask(listener.getsockname(), question)) for question in questions]
            clients = [(await loop.sock_accept(listener))[0] for _ in asked]
            moved = sum(await asyncio.gather(*(join(client, far, pool) for client in clients)))
            assert await asyncio.gather(*asked) == [question[::-1] for question in questions]
    assert moved == 2 * CLIENTS * SIZE
    print(f"{CLIENTS} clients at once, {moved:,} bytes moved, none copied")


if __name__ == "__main__":
    asyncio.run(main())
