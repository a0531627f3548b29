"""Relays on asyncio and uvloop: half-close in order, few pipes for many, streams with what they hold."""

import asyncio
import os
import socket
import ssl

import pytest
from counts import nothing_left
from ends import tcp_pair
from loops import close, on_both_loops, read_all, send_all, streams

from zerosys import PumpError, PumpTimeout
from zerosys.pumps import aio

DATA = bytes(range(251)) * 4000


async def talk(client, server, out, back):
    """Send *out*, answer it with *back* after its end; what each side got."""

    async def serve():
        got = await read_all(server)
        await send_all(server, back)
        return got

    _, seen, answer = await asyncio.gather(send_all(client, out), serve(), read_all(client))
    return seen, answer


@on_both_loops
def test_both_ways_arrive_and_an_end_is_passed_on_after_the_bytes_before_it(run):
    async def main():
        (client, b), (c, server) = pairs = streams()
        relay = asyncio.create_task(aio.relay(b, c))
        assert await talk(client, server, DATA, DATA[::-1]) == (DATA, DATA[::-1])
        result = await relay
        assert (result.forth.bytes, result.back.bytes) == (len(DATA), len(DATA))
        assert result.bytes == result.forth.moved + result.back.moved
        close(pairs)

    with nothing_left():
        run(main())


@on_both_loops
@pytest.mark.parametrize("most", [1, 3])
def test_many_stalled_relays_share_few_pipes_and_lose_nothing(run, most):
    """Every sink is full before any is read: what the pipes held is taken into memory in turn."""

    async def main():
        pool = aio.PipePool(most, 1 << 18)
        lines = [streams() for _ in range(60)]
        relays = [asyncio.create_task(aio.relay(b, c, pool=pool)) for (_, b), (c, _) in lines]
        senders = [
            asyncio.create_task(send_all(client, DATA[n:])) for n, ((client, _), _) in enumerate(lines)
        ]
        await asyncio.sleep(0.3)
        assert pool.pipes == most
        got = await asyncio.gather(*(read_all(server) for _, (_, server) in lines))
        assert got == [DATA[n:] for n in range(len(lines))]
        for _, (_, server) in lines:
            server.shutdown(socket.SHUT_WR)
        results = await asyncio.gather(*relays)
        await asyncio.gather(*senders)
        assert sum(one.forth.copied for one in results) > 0
        assert all(one.forth.path == "splice-pipe-splice" for one in results)
        assert pool.pipes == 0
        for line in lines:
            close(line)

    with nothing_left():
        run(main())


def test_a_stalled_relay_keeps_its_pipe_while_nobody_needs_it():
    async def main():
        pool = aio.PipePool(2)
        (client, b), (c, server) = pairs = streams()
        relay = asyncio.create_task(aio.relay(b, c, pool=pool))
        sender = asyncio.create_task(send_all(client, DATA))
        await asyncio.sleep(0.1)
        assert (pool.pipes, pool.free) == (1, 0)
        assert await read_all(server) == DATA
        server.shutdown(socket.SHUT_WR)
        assert (await relay).forth.copied == 0
        await sender
        close(pairs)

    asyncio.run(main())


@on_both_loops
def test_a_side_that_takes_no_more_ends_its_own_direction(run):
    async def main():
        (client, b), (c, server) = pairs = streams()
        relay = asyncio.create_task(aio.relay(b, c))
        await asyncio.sleep(0)
        server.shutdown(socket.SHUT_RD)  # it will answer, and does not listen
        client.send(b"unheard")
        await asyncio.sleep(0.1)
        assert not relay.done()
        _, heard = await asyncio.gather(send_all(server, DATA), read_all(client))
        assert heard == DATA
        with pytest.raises(PumpError) as broken:
            await relay
        error = broken.value
        assert (error.side, error.moved, error.stranded_bytes) == ("sink", 0, b"unheard")
        assert error.result.back.bytes == len(DATA)
        assert error.stranded_each == (b"unheard", b"")
        close(pairs)

    with nothing_left():
        run(main())


def test_a_reset_ends_the_relay():
    async def main():
        near, far = tcp_pair()
        ((other, _),) = pairs = streams(1)
        near.setblocking(False)
        relay = asyncio.create_task(aio.relay(near, other))
        await asyncio.sleep(0.05)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        far.close()
        with pytest.raises(PumpError, match="reset") as broken:
            await relay
        assert broken.value.side == "source"
        near.close()
        close(pairs)

    with nothing_left():
        asyncio.run(main())


@on_both_loops
def test_cancelling_tells_of_both_ways(run):
    async def main():
        (client, b), (c, server) = pairs = streams()
        relay = asyncio.create_task(aio.relay(b, c))
        sender = asyncio.create_task(send_all(client, DATA))
        back = await asyncio.get_running_loop().sock_sendall(server, b"back") or await read_some(client)
        assert back == b"back"
        await asyncio.sleep(0.2)
        relay.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await relay
        result = stopped.value.result
        assert result.back.bytes == 4
        got = b""
        while len(got) < result.forth.bytes:
            got += server.recv(1 << 20)
        forth, back = stopped.value.stranded_each
        got += forth
        assert (got, back) == (DATA[: len(got)], b"")
        assert stopped.value.moved == result.forth.bytes
        sender.cancel()
        await asyncio.wait([sender])
        close(pairs)

    with nothing_left():
        run(main())


async def read_some(sock):
    return await asyncio.get_running_loop().sock_recv(sock, 100)


def test_a_silent_relay_is_ended_by_the_stall_timeout_alone():
    async def main():
        (_, b), (c, _) = pairs = streams()
        with pytest.raises(PumpTimeout, match="nothing has moved") as late:
            await aio.relay(b, c, stall_timeout=0.2)
        assert late.value.result.bytes == 0
        close(pairs)

    with nothing_left():
        asyncio.run(main())


@on_both_loops
def test_streams_are_relayed_with_what_they_hold_first(run):
    """A proxy reads the request's head from its stream, and relays the rest."""

    async def main():
        (client, ours), (theirs, server) = pairs = streams()
        left = await asyncio.open_connection(sock=ours)
        right = await asyncio.open_connection(sock=theirs)
        client.send(b"CONNECT somewhere\r\n" + b"early ")
        assert await left[0].readline() == b"CONNECT somewhere\r\n"
        right[1].write(DATA)  # more than the socket takes at once: the writer holds the rest
        relay = asyncio.create_task(aio.relay(left, right))
        assert await read_exactly(server, len(DATA)) == DATA
        seen, answer = await talk(client, server, b"and late", b"answer")
        assert (seen, answer) == (b"early and late", b"answer")
        result = await relay
        assert (result.forth.copied, result.forth.moved) == (6, 8)
        for writer in (left[1], right[1]):
            writer.close()
            await writer.wait_closed()
        client.close()
        server.close()
        assert pairs

    with nothing_left():
        run(main())


async def read_exactly(sock, n):
    got = b""
    while len(got) < n:
        got += await asyncio.get_running_loop().sock_recv(sock, n - len(got))
    return got


@on_both_loops
def test_a_stream_reads_on_after_a_pump_with_a_count(run):
    async def main():
        ((client, ours),) = streams(1)
        reader, writer = await asyncio.open_connection(sock=ours)
        client.send(b"line\n0123456789and the rest\n")
        await reader.readline()
        place = bytearray(10)
        result = await aio.pump((reader, writer), place, 10)
        assert (place, result.copied) == (b"0123456789", 10)
        assert await reader.readline() == b"and the rest\n"
        client.send(b"later\n")
        assert await reader.readline() == b"later\n"
        writer.close()
        await writer.wait_closed()
        client.close()

    with nothing_left():
        run(main())


def test_half_a_pair_of_streams_and_encrypted_ones_are_refused():
    async def main():
        ((client, ours),) = streams(1)
        reader, writer = await asyncio.open_connection(sock=ours)
        for half in (reader, writer, writer.transport):
            with pytest.raises(TypeError, match="pass the pair"):
                await aio.pump(half, bytearray(1))
        with pytest.raises(TypeError, match="StreamReader, StreamWriter"):
            await aio.pump((reader, 1), bytearray(1))
        writer.close()
        await writer.wait_closed()
        client.close()

    with nothing_left():
        asyncio.run(main())


def test_a_wrapped_socket_is_refused():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    near, far = socket.socketpair()
    wrapped = context.wrap_socket(near, do_handshake_on_connect=False)

    async def main():
        with pytest.raises(TypeError, match="its own methods"):
            await aio.relay(wrapped, far)

    with nothing_left():
        asyncio.run(main())
    wrapped.close()
    far.close()


@on_both_loops
def test_an_end_can_be_a_source_and_a_sink(run):
    """As standard input and output are."""

    async def main():
        (reader, typed), (shown, writer) = os.pipe(), os.pipe()
        ((ours, server),) = pairs = streams(1)
        relay = asyncio.create_task(aio.relay((reader, writer), ours))
        os.write(typed, b"hello")
        os.close(typed)
        assert await read_all(server) == b"hello"
        await send_all(server, b"world")
        result = await relay
        assert (result.forth.bytes, result.back.bytes) == (5, 5)
        assert os.read(shown, 100) == b"world"
        for fd in (reader, shown, writer):
            os.close(fd)
        close(pairs)

    with nothing_left():
        run(main())


def test_a_buffer_is_no_end_of_a_relay():
    async def main():
        ((near, far),) = pairs = streams(1)
        with pytest.raises(TypeError, match="a buffer is none"):
            await aio.relay(near, (bytearray(5), far))
        close(pairs)

    with nothing_left():
        asyncio.run(main())


async def crowd(count, seconds):
    """*count* relays that all talk for *seconds*; how many bytes, and the descriptors in use meanwhile."""
    loop = asyncio.get_running_loop()
    lines = [streams() for _ in range(count)]
    relays = [asyncio.create_task(aio.relay(b, c)) for (_, b), (c, _) in lines]
    end, counts = loop.time() + seconds, []

    async def chat(client, server, n):
        word, times = DATA[n : n + 3000], 0
        while loop.time() < end or not times:
            await loop.sock_sendall(client, word)
            assert await read_exactly(server, len(word)) == word
            await loop.sock_sendall(server, word[::-1])
            assert await read_exactly(client, len(word)) == word[::-1]
            times += 1
        client.shutdown(socket.SHUT_WR)
        server.shutdown(socket.SHUT_WR)
        return times * 2 * len(word)

    async def watch():
        while loop.time() < end:
            counts.append(len(os.listdir("/proc/self/fd")))
            await asyncio.sleep(min(1, seconds / 4))

    *carried, _ = await asyncio.gather(
        *(chat(client, server, n) for n, ((client, _), (_, server)) in enumerate(lines)), watch()
    )
    results = await asyncio.gather(*relays)
    for line in lines:
        close(line)
    assert sum(one.bytes for one in results) == sum(carried)
    return sum(carried), counts


def room_for(count):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 7 * count + 500
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, wanted), hard), hard))
    return (min(max(soft, wanted), hard) - 500) // 7


@on_both_loops
def test_many_relays_at_once_keep_descriptors_and_pipes_flat(run):
    count = min(room_for(200), 200)
    assert count > 50
    with nothing_left():
        carried, counts = run(crowd(count, 1))
    assert carried
    assert max(counts) <= 6 * count + 2 * aio.PipePool().most + 50


@pytest.mark.stress
@pytest.mark.timeout(300)
@on_both_loops
def test_a_thousand_relays_for_a_minute_keep_descriptors_and_pipes_flat(run):
    assert room_for(1000) >= 1000
    with nothing_left():
        carried, counts = run(crowd(1000, 60))
    print(f"{carried >> 20} MiB through 1,000 relays, {min(counts)} to {max(counts)} descriptors")
    settled = counts[len(counts) // 4 :]
    assert max(settled) - min(settled) <= 2 * aio.PipePool().most


@on_both_loops
def test_a_socket_is_not_relayed_to_itself(run):
    async def main():
        pairs = streams()
        (_, b), _ = pairs
        with pytest.raises(ValueError, match="a and b are the same socket"):
            await aio.relay(b, b)
        close(pairs)

    run(main())
