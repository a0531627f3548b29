"""send_zerocopy(): the network card reads the sender's own memory, and the kernel tells when it has.

It numbers the zero-copy sends of a socket from 0, and answers with ranges of numbers, which wrap at
2**32. So the open sends of a socket are kept together, whoever waits for them.
"""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NoReturn, SupportsFloat
from weakref import WeakKeyDictionary

from zerosys._zerocopy import enable_zerocopy, freed, lend
from zerosys.errors import PumpError, PumpTimeout
from zerosys.pumps.ends import plain_socket
from zerosys.pumps.result import carry

_WRAP = 1 << 32
_PATIENCE = 0.05


class ZeroCopySend:
    """The fate of a buffer that was sent: it must not change before it is free.

    ``bytes`` of it were accepted by the socket. The buffer is held until it is free.
    """

    def __init__(self, queue: _Completions, view: memoryview) -> None:
        self._queue, self._view = queue, view
        self._open = 0  # sends of it that were not answered yet
        self._sending = True
        self.bytes = 0
        self.copied = False  # whether any of it was copied after all, as on loopback it always is

    def done(self) -> bool:
        """Whether the buffer is free: nobody reads it any more. Never sleeps."""
        if self._open:
            self._queue.reap()
        return not self._open

    def wait(self, timeout: SupportsFloat | None = None) -> None:
        """Sleep until the buffer is free. Raises PumpTimeout after *timeout* seconds.

        Close the socket only after this: a closed one tells nothing any more.
        """
        deadline = None if timeout is None else time.monotonic() + float(timeout)
        while not self.done():
            self._queue.sleep(deadline, "the buffer is still in use", self.bytes)
            if not self._queue.reap():
                time.sleep(0.001)  # POLLERR, and no answer: a broken socket's, which stays

    def _answered(self, copied: bool) -> None:
        self._open -= 1
        self.copied |= copied
        self._release()

    def _sent(self) -> None:
        self._sending = False
        self._release()

    def _release(self) -> None:
        if not self._open and not self._sending:
            self._view.release()


@dataclass(eq=False)
class _Completions:
    """The zero-copy sends of one socket that were not answered yet, oldest first.

    An open send holds its future, and so its buffer, for as long as the kernel may read it.
    """

    fd: int
    takes: bool  # whether SO_ZEROCOPY took: without it nothing is ever answered
    next: int = 0
    open: deque[tuple[int, ZeroCopySend]] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, future: ZeroCopySend, data: memoryview) -> None:
        """Send some of *data*. The number of a send and its place in the queue are one step."""
        with self.lock:
            sent = lend(self.fd, data, self.takes)
            future.bytes += sent
            if not self.takes:
                future.copied = True
                return
            self.open.append((self.next, future))
            self.next = (self.next + 1) % _WRAP
            future._open += 1

    def reap(self) -> bool:
        """Take the answers there are; whether there were any."""
        with self.lock:
            answers = freed(self.fd)
            for first, last, copied in answers:
                self._close(first, (last - first) % _WRAP, copied)
            return bool(answers)

    def _close(self, first: int, span: int, copied: bool) -> None:
        still: deque[tuple[int, ZeroCopySend]] = deque()
        while self.open:
            number, future = self.open.popleft()
            if (number - first) % _WRAP <= span:
                future._answered(copied)
            else:
                still.append((number, future))
                if (number - first) % _WRAP < _WRAP // 2:  # behind the range, and so is all that follows
                    break
        self.open.extendleft(reversed(still))

    def sleep(self, deadline: float | None, what: str, moved: int, events: int = 0) -> None:
        """Until there may be an answer (POLLERR, which is always watched), or one of *events*."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise PumpTimeout(errno.ETIMEDOUT, f"the time is over and {what}", side="sink", moved=moved)
        poller = select.poll()
        poller.register(self.fd, events)
        # Not for long: another thread can take the answer that this one waits for.
        poller.poll(1000 * (_PATIENCE if left is None else min(left, _PATIENCE)))


_QUEUES: WeakKeyDictionary[socket.socket, _Completions] = WeakKeyDictionary()
_QUEUES_LOCK = threading.Lock()


def _completions(sock: socket.socket) -> _Completions:
    with _QUEUES_LOCK:
        queue = _QUEUES.get(sock)
        if queue is None or queue.fd != sock.fileno():
            queue = _QUEUES[sock] = _Completions(sock.fileno(), enable_zerocopy(sock))
        return queue


def send_zerocopy(sock: socket.socket, buffer: Any, *, timeout: SupportsFloat | None = None) -> ZeroCopySend:
    """Send all of *buffer* from its own memory; come back once the socket has accepted it.

    The ZeroCopySend tells when the buffer is free: it must not change before. Where the
    socket knows no MSG_ZEROCOPY (Unix sockets), or the memory that may be pinned is spent,
    bytes are copied and free at once; ``copied`` tells of that, and of a copy that the
    kernel made later, as it always does on loopback. It pays for tens of KiB and more, on
    a network card. All zero-copy sends of a socket must go through this function and one
    socket object, for the kernel only counts them.

    Raises PumpTimeout after *timeout* seconds and PumpError when the socket fails, with
    ``moved``, the bytes it had accepted, and ``send``, their ZeroCopySend. See send(2),
    and MSG_ZEROCOPY in the kernel's documentation.
    """
    plain_socket(sock, "sock")
    if not isinstance(sock, socket.socket):
        raise TypeError(f"sock must be a socket, not {type(sock).__name__}: its answers are kept by it")
    queue = _completions(sock)
    view = memoryview(buffer).cast("B")
    future = ZeroCopySend(queue, view)
    deadline = None if timeout is None else time.monotonic() + float(timeout)
    try:
        while future.bytes < view.nbytes:
            _send_some(queue, future, view, deadline)
    except BaseException as stopped:
        _stop(stopped, future)
    queue.reap()
    future._sent()
    return future


def _send_some(queue: _Completions, future: ZeroCopySend, view: memoryview, deadline: float | None) -> None:
    with view[future.bytes :] as rest:
        try:
            queue.send(future, rest)
        except BlockingIOError:
            # An error queue that is not empty ends every poll at once: empty it, or this would spin.
            if not queue.reap():
                queue.sleep(deadline, "the socket takes no more", future.bytes, select.POLLOUT)
        except OSError as refusal:
            if refusal.errno != errno.ENOBUFS:
                raise
            # No more memory may be pinned: by our sends, which answers give back; or else by
            # others, for whom nobody could wait.
            if queue.open:
                if not queue.reap():
                    queue.sleep(deadline, "no answer has come", future.bytes)
            else:
                future.bytes += lend(queue.fd, rest, zerocopy=False)
                future.copied = True


def _stop(stopped: BaseException, future: ZeroCopySend) -> NoReturn:
    future._sent()
    if isinstance(stopped, OSError) and not isinstance(stopped, PumpError):
        stopped = PumpError(stopped.errno, stopped.strerror, side="sink", moved=future.bytes)
    carry(stopped, moved=future.bytes, send=future)
    raise stopped from None
