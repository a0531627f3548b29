"""Writers and readers as ring.writer() and ring.reader() make them: with devices, files and event loops."""

from __future__ import annotations

import asyncio
import os
import select
import time
from typing import TYPE_CHECKING, Any, Self

from zerosys import _ring_items, _ring_messages
from zerosys._transfer import Transfer
from zerosys.window import Returns

if TYPE_CHECKING:
    from zerosys.owned import HasFileno


class _Reader:
    """What readers of items and of messages add to what is compiled."""

    _returns: Returns | None = None

    def _defer(self: Any, after: Any, count: int, items: int) -> None:
        if self._returns is None:
            self._returns = Returns()
        self._returns.add(after, lambda: self._release(count, items))

    def _reap(self, wait: bool) -> None:
        if self._returns is not None:
            self._returns.reap(wait=wait)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self: Any) -> Any:
        """The next step of an iteration; others of the loop run until there is one."""
        while True:
            try:
                found = self.next_now()
            except StopIteration:
                raise StopAsyncIteration from None
            if found is not None:
                return found
            self.look()
            await self._readable()

    async def _readable(self: Any) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self.fileno(), _done, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self.fileno())


def _done(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class StreamWriter(_ring_items.StreamWriter):
    __doc__ = _ring_items.StreamWriter.__doc__

    _begun = b""  # of an item whose rest has not come yet

    def receive(self, fd: int | HasFileno, n: int, timeout: float | None = None) -> int:
        """Have the kernel write up to *n* items from *fd* straight into the ring; return how many.

        Fewer only at the end of the input. Waits up to *timeout* seconds, for room and for
        input together; TimeoutError and OSError have ``moved``, the items that were published
        until then, and the bytes of an item that was cut go before the next receive()'s.
        Raises ValueError for input that ends inside an item. See read(2), recv(2).
        """
        size = self.ring.item_size
        begun = self._begun
        until = None if timeout is None else time.monotonic() + timeout
        with self.claim(n, timeout) as window, window.raw as view:
            view[: len(begun)] = begun
            got = len(begun)
            with Transfer(fd, view[got:]) as transfer:
                try:
                    transfer.run(None if until is None else max(0.0, until - time.monotonic()))
                except BaseException as stopped:
                    stopped.moved = (got + transfer.delivered) // size  # type: ignore[attr-defined]
                    raise
                finally:
                    got += transfer.delivered
                    self._begun = bytes(view[got - got % size : got])
                    window.commit(got // size)
        if self._begun:
            raise ValueError(f"the input ended inside an item: {len(self._begun)} of {size} bytes came")
        return got // size


class MessageWriter(_ring_messages.MessageWriter):
    __doc__ = _ring_messages.MessageWriter.__doc__

    def receive(self, fd: int | HasFileno, n: int, timeout: float | None = None) -> int | None:
        """Have the kernel write what one read of *fd* brings, up to *n* bytes, into the ring as a message.

        So a datagram is a message. Returns its bytes, None at the end of the input. Waits up to
        *timeout* seconds, for room and for input together: TimeoutError. See read(2), recv(2).
        """
        until = None if timeout is None else time.monotonic() + timeout
        with self.claim(n, timeout) as window, memoryview(window) as view:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            left = None if until is None else max(0.0, until - time.monotonic()) * 1000
            if not poll.poll(left):
                raise TimeoutError(f"nothing came to be received within {timeout} s")
            got = os.readv(fd if isinstance(fd, int) else fd.fileno(), [view])
            if got:
                window.commit(got)
            else:
                window.abort()
        return got or None


class StreamReader(_Reader, _ring_items.StreamReader):
    __doc__ = _ring_items.StreamReader.__doc__

    _sent = 0  # bytes of the first unreleased item that a send() has handed over already

    def send(self, fd: int | HasFileno, n: int | None = None, timeout: float | None = None) -> int:
        """Have the kernel read *n* items (None: all there will be) straight from the ring into *fd*.

        Returns how many, fewer only at the end of the stream; each is released once *fd* has it.
        Waits up to *timeout* seconds, for items and for *fd* together; TimeoutError and OSError
        have ``moved``, the items that went until then. An item that was cut goes on at the next
        send(). Refused in overwrite mode. See write(2), send(2).
        """
        if self.ring.on_full == "overwrite":
            raise ValueError("the writer could overwrite what is being sent: read_into() copies, and checks")
        until = None if timeout is None else time.monotonic() + timeout
        done = 0
        try:
            while n is None or done < n:
                left = None if until is None else max(0.0, until - time.monotonic())
                window = self.peek_some(None if n is None else n - done, left)
                if not window:
                    window.release()
                    break
                done += self._send_window(fd, window, until)
        except BaseException as stopped:
            stopped.moved = done + getattr(stopped, "_items", 0)  # type: ignore[attr-defined]
            raise
        return done

    def _send_window(self, fd: int | HasFileno, window: Any, until: float | None) -> int:
        size = self.ring.item_size
        with window.raw as view, Transfer(view[self._sent :], fd) as transfer:
            try:
                transfer.run(None if until is None else max(0.0, until - time.monotonic()))
            except BaseException as stopped:
                stopped._items = (self._sent + transfer.delivered) // size  # type: ignore[attr-defined]
                raise
            finally:
                sent = self._sent + transfer.delivered
                self._sent = sent % size
                window.release(sent // size)
        return sent // size


class MessageReader(_Reader, _ring_messages.MessageReader):
    __doc__ = _ring_messages.MessageReader.__doc__

    def send(self, fd: int | HasFileno, timeout: float | None = None) -> int | None:
        """Have the kernel read the next message straight from the ring into *fd*, as one datagram.

        Returns its bytes, None at the end of the stream. It is released once all of it went.
        Waits up to *timeout* seconds: TimeoutError, whose ``moved`` are bytes of the message that
        a stream socket has taken already. Refused in overwrite mode. See write(2), send(2).
        """
        if self.ring.on_full == "overwrite":
            raise ValueError("the writer could overwrite what is being sent: read_into() copies, and checks")
        until = None if timeout is None else time.monotonic() + timeout
        window = self.peek(timeout)
        if not window:
            window.release()
            return None
        try:
            with memoryview(window) as view, Transfer(view, fd) as transfer:
                transfer.run(None if until is None else max(0.0, until - time.monotonic()))
        except BaseException:
            window.put_back()
            raise
        window.release()
        return len(window)
