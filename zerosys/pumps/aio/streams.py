"""A pair of asyncio streams as an end: what its reader and writer hold comes first, in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PIECE = 1 << 20


class Borrowed:
    """The socket of a pair of streams, whose transport reads nothing until give_back()."""

    def __init__(self, pair: Streams) -> None:
        self._reader, self._writer = pair
        # What asyncio's types do not tell: a transport that reads can be paused.
        self._transport: Any = self._writer.transport
        self._reading = False
        if self._writer.is_closing():  # its number may be somebody else's by now
            raise ValueError("these streams are closed: pump before their close()")
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
        held = _held(self._reader, count)
        # Only now: a reader that held too much had it paused, and goes on when it is read from.
        self._reading = self._transport.is_reading()
        with suppress(RuntimeError):  # it was closed meanwhile, and reads no more
            self._transport.pause_reading()
        return held

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


def _held(reader: asyncio.StreamReader, count: int | None) -> bytes:
    """What *reader* holds already, at most *count* bytes. It is asked until it would wait, and does not."""
    held = bytearray()
    while not reader.at_eof() and (count is None or len(held) < count):
        more = reader.read(_PIECE if count is None else min(count - len(held), _PIECE))
        try:
            more.send(None)
        except StopIteration as had:
            held += had.value
        else:
            more.close()
            break
    return bytes(held)
