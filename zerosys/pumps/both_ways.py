"""relay(): two sockets, both directions, until both are done."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from socket import SO_TYPE, SOCK_STREAM, SOL_SOCKET, socket
from typing import SupportsFloat, SupportsIndex

from zerosys._relay import Relay
from zerosys._transfer import Transfer
from zerosys.pumps.ends import Descriptor, plain_socket, refuse_same, status
from zerosys.pumps.result import PumpResult, carry, result_of, stopped_by
from zerosys.sizes import parse_size


@dataclass(frozen=True, slots=True)
class RelayResult:
    """What went from the first socket to the second (``forth``), and from that one ``back``."""

    forth: PumpResult
    back: PumpResult

    @property
    def bytes(self) -> int:
        """Bytes delivered, both ways together."""
        return self.forth.bytes + self.back.bytes


def relay(
    a: Descriptor,
    b: Descriptor,
    *,
    timeout: SupportsFloat | None = None,
    stall_timeout: SupportsFloat | None = None,
    strict: bool = False,
    touch_flags: bool = True,
    progress: Callable[[RelayResult], object] | None = None,
    pipe_size: SupportsIndex | str = 1 << 20,
) -> RelayResult:
    """Carry bytes between two connected stream sockets, both ways, until both have ended.

    When one side will send no more, the other is told so (SHUT_WR) once it has all the
    bytes before that. Blocking sockets are non-blocking meanwhile; *strict*,
    *touch_flags*, *progress* and *pipe_size* are as in pump().

    Raises PumpTimeout after *timeout* seconds, or *stall_timeout* without a byte moving
    either way; PumpError when a side fails: one that takes no more ends its own direction,
    and the error comes when the other is done too. ``side``, ``moved`` and
    ``stranded_bytes`` are those of the direction that failed; ``result`` is the
    RelayResult so far, also on KeyboardInterrupt. The sockets stay the caller's to close.
    See splice(2), shutdown(2).
    """
    began = time.monotonic()
    size = parse_size(pipe_size) if isinstance(pipe_size, str) else pipe_size
    for end, name in ((a, "a"), (b, "b")):
        _refuse_other_than_stream(plain_socket(end, name), name)
    refuse_same(_fd(a), _fd(b))
    with ExitStack() as stack:
        forth, back = (
            stack.enter_context(Transfer(src, dst, pipe_size=size, touch_flags=touch_flags, strict=strict))
            for src, dst in ((a, b), (b, a))
        )
        both = Relay(forth, back)

        def so_far(_: Relay = both) -> RelayResult:
            seconds = time.monotonic() - began
            return RelayResult(result_of(forth, seconds), result_of(back, seconds))

        try:
            both.run(
                timeout,
                stall_timeout=stall_timeout,
                watch=(lambda running: progress(so_far())) if progress else None,
            )
            return so_far()
        except BaseException as stopped:
            raising = stopped_by(stopped, both.failed or (forth if forth.stranded else back))
            carry(raising, result=so_far())
            if raising is stopped:
                raise
            raise raising from None


def _fd(end: Descriptor) -> int:
    return end if isinstance(end, int) else int(end.fileno())


def _refuse_other_than_stream(end: Descriptor, name: str) -> None:
    if not isinstance(end, int) and not hasattr(end, "fileno"):
        raise TypeError(
            f"{name} must be a socket, or the descriptor of one, not {type(end).__name__} ({end!r:.100})"
        )
    fd = _fd(end)
    if not stat.S_ISSOCK(status(fd, name).st_mode):
        raise TypeError(
            f"{name} (descriptor {fd}) is not a socket: relay() joins two of them; pump() takes the rest"
        )
    with socket(fileno=os.dup(fd)) as own:
        kind = own.getsockopt(SOL_SOCKET, SO_TYPE)
    if kind != SOCK_STREAM:
        raise TypeError(f"{name} (descriptor {fd}) is not a stream socket: messages have no end to pass on")
