"""A pair of asyncio streams as an end: what its reader and writer hold comes first, in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Borrowed:
    """The socket of a pair of streams, whose transport reads nothing until give_back()."""

    def __init__(self, pair: Streams) -> None:
        self._reader, self._writer = pair
        # What asyncio's types do not tell: a transport that reads can be paused.
        self._transport: Any = self._writer.transport
        self._reading = False
        self.fd = _plain_socket(self._writer)

    async def flush(self) -> None:
        """Wait until the writer holds nothing back."""
        low, high = self._transport.get_write_buffer_limits()
        self._transport.set_write_buffer_limits(0)
        try:
            await self._writer.drain()
        finally:
            self._transport.set_write_buffer_limits(high, low)

    def take_over(self, count: int | None) -> bytes:
        """Stop the transport from reading; what the reader has, at most *count* bytes of it."""
        self._reading = self._transport.is_reading()
        held = _held(self._reader)
        self._transport.pause_reading()
        if count is None or len(held) <= count:
            return held
        self._reader.feed_data(held[count:])
        return held[:count]

    def give_back(self) -> None:
        """Let the transport read again, if it did."""
        if self._reading:
            with suppress(RuntimeError):  # it was closed meanwhile
                self._transport.resume_reading()


def pair_of(end: object) -> Streams | None:
    """*end*, if it is a pair of streams; TypeError if it is half of one."""
    if isinstance(end, asyncio.StreamReader | asyncio.StreamWriter | asyncio.BaseTransport):
        raise TypeError(
            f"a {type(end).__name__} alone is no end, for its other half has bytes of its own: pass the pair "
            "(reader, writer)"
        )
    if not isinstance(end, tuple):
        return None
    if (
        len(end) == 2
        and isinstance(end[0], asyncio.StreamReader)
        and isinstance(end[1], asyncio.StreamWriter)
    ):
        return end
    kinds = ", ".join(type(part).__name__ for part in end)
    raise TypeError(f"a pair must be (StreamReader, StreamWriter), not ({kinds}); several sinks are a list")


def _plain_socket(writer: asyncio.StreamWriter) -> int:
    if writer.get_extra_info("sslcontext") is not None:
        raise TypeError("these streams are encrypted, their socket has no plain bytes: read and write them")
    if (socket := writer.get_extra_info("socket")) is None:
        raise TypeError("these streams have no socket: pass the descriptors of their pipes")
    return int(socket.fileno())


def _held(reader: asyncio.StreamReader) -> bytes:
    """What *reader* holds already. It is asked for more until it would wait, and does not."""
    parts = []
    while not reader.at_eof():
        more = reader.read(1 << 20)
        try:
            more.send(None)
        except StopIteration as had:
            parts.append(had.value)
        else:
            more.close()
            break
    return b"".join(parts)
