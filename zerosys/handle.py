"""What crosses to another process in a region's place, checked on arrival."""

from __future__ import annotations

import errno
import json
import math
import select
import socket
import struct
import time
from dataclasses import dataclass
from multiprocessing import reduction
from types import TracebackType
from typing import Any, NoReturn, Self

from zerosys._descriptor import Descriptor, own
from zerosys._rights import receive_fds, send_fds
from zerosys.timeouts import waiting

_HEAD = struct.Struct("!8sII")  # magic, version, bytes of JSON that follow
_MAGIC = b"zerosys\0"
_VERSION = 1
_LONGEST = 16 << 10
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Particulars:
    """What a handle says of its descriptor. Words of a stranger until they are checked."""

    size: int
    page_size: int
    pages: str
    source: str
    policy: dict[str, Any] | None
    fill_later: bool = False  # the first to attach populates it
    files: int = 1  # 2: a ring's, control and data; all else is then of the control file

    def to_json(self) -> bytes:
        """The bytes that from_json reads."""
        return json.dumps(self.__dict__, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read what another process wrote. Raises ValueError for anything but that."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a handle's particulars are no JSON: {error}") from None
        kinds: dict[str, type | tuple[type, ...]] = {
            "size": int,
            "page_size": int,
            "pages": str,
            "source": str,
            "policy": (dict, type(None)),
            "fill_later": bool,
            "files": int,
        }
        if not isinstance(fields, dict) or set(fields) != set(kinds):
            raise ValueError(f"a handle has the particulars {', '.join(kinds)}, not {str(fields)[:200]}")
        for name, kind in kinds.items():
            value = fields[name]
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise ValueError(f"a handle's {name} cannot be {str(value)[:200]!r}")
        got = cls(**fields)
        page = got.page_size
        if got.files not in (1, 2):
            raise ValueError(f"a handle has 1 file (a region) or 2 (a ring), not {got.files}")
        if not 1 <= got.size <= _LARGEST or not 1 <= page <= _LARGEST or page & (page - 1):
            raise ValueError(f"a handle cannot have size {got.size} with pages of {page} bytes")
        return got


class RegionHandle:
    """Owns a descriptor of a region's memory, and says what it is.

    Made by ``SharedRegion.handle()`` or recv(); ``SharedRegion.attach(handle)`` maps it
    and leaves it open. close() it, or use it in a ``with``.
    """

    def __init__(self, fd: int | Descriptor, particulars: Particulars) -> None:
        """Take over *fd*: it is closed with the handle."""
        self._fd = fd if isinstance(fd, Descriptor) else Descriptor(fd)
        self.particulars = particulars

    def fileno(self) -> int:
        """The descriptor, still the handle's. Raises ValueError once closed."""
        if self.closed:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._fd.fileno()

    def filenos(self) -> tuple[int, ...]:
        """Every descriptor that travels with it."""
        return (self.fileno(),)

    @property
    def closed(self) -> bool:
        """Whether the descriptor was given back."""
        return self._fd.closed

    def close(self) -> None:
        """Give the descriptor back; attached regions keep their own. Twice is fine."""
        self._fd.close()

    def __enter__(self) -> Self:
        self.fileno()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"descriptor {self.fileno()}"
        return f"<{type(self).__name__} of {self.particulars.size} bytes, {state}>"

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self)


class RingHandle(RegionHandle):
    """Owns the descriptors of a ring's two files, control and data.

    Made by ``ring.handle()`` or recv(); ``StreamRing.attach(handle)`` joins the ring and leaves
    it open. close() it, or use it in a ``with``.
    """

    def __init__(self, fd: int | Descriptor, data: int | Descriptor, particulars: Particulars) -> None:
        """Take over both descriptors: they are closed with the handle."""
        super().__init__(fd, particulars)
        self._data = data if isinstance(data, Descriptor) else Descriptor(data)

    def filenos(self) -> tuple[int, ...]:
        """Those of control and data, still the handle's."""
        return self.fileno(), self._data.fileno()

    def close(self) -> None:
        """Give the descriptors back; attached rings keep their own. Twice is fine."""
        super().close()
        self._data.close()


def refuse_pickle(thing: object) -> NoReturn:
    """The answer to plain pickle, which no descriptor can travel in, with the remedy."""
    raise TypeError(
        f"a {type(thing).__name__} holds a descriptor, which plain pickle cannot carry: pass it as an "
        "argument of "
        "a multiprocessing Process, through its Queue, Pipe or Pool, or send its handle by "
        "zerosys.handle.send()"
    )


def carry(fd: int, particulars: Particulars) -> tuple[Any, bytes]:
    """What multiprocessing's own pickler writes for *fd*, which travels beside the pickle.

    *fd* must stay open until the pickle was sent: a spawned child inherits it.
    """
    return reduction.DupFd(fd), particulars.to_json()


def arrive(carried: Any, particulars: bytes) -> RegionHandle:
    """The receiving side's handle of what carry() sent."""
    return RegionHandle(own(carried.detach), Particulars.from_json(particulars))


def _reduce(handle: RegionHandle) -> tuple[Any, ...]:
    return arrive, carry(handle.fileno(), handle.particulars)


reduction.register(RegionHandle, _reduce)


def send(sock: socket.socket, handle: RegionHandle, *, timeout: float | None = None) -> None:
    """Send *handle* over the connected Unix socket *sock*; the receiver gets its own descriptor.

    Waits at most *timeout* seconds (None: for ever), whatever the socket's own timeout.
    Raises TimeoutError, or OSError when the peer has gone. *handle* stays the caller's.
    See unix(7), SCM_RIGHTS.
    """
    if not isinstance(handle, RegionHandle):
        raise TypeError(f"send() takes what region.handle() or ring.handle() makes, not {handle!r}")
    if sock.family != socket.AF_UNIX:
        raise ValueError(f"descriptors travel over Unix sockets (AF_UNIX) only, not {sock.family.name}")
    body = handle.particulars.to_json()
    data = memoryview(_HEAD.pack(_MAGIC, _VERSION, len(body)) + body)
    passed = handle.filenos()
    deadline = _deadline(timeout)
    while data:
        try:
            sent = send_fds(sock, data, passed)
        except BlockingIOError:
            _wait(sock, select.POLLOUT, deadline, "send")
            continue
        data, passed = data[sent:], ()


def recv(sock: socket.socket, *, timeout: float | None = None) -> RegionHandle:
    """Receive a handle that send() sent; the caller owns it.

    Waits at most *timeout* seconds (None: for ever). Raises EOFError at the end of the
    stream, TimeoutError, and ValueError for anything but one handle with its descriptors:
    every descriptor that came is closed then. See unix(7), SCM_RIGHTS.
    """
    deadline = _deadline(timeout)
    fds: list[Descriptor] = []
    try:
        if sock.type == socket.SOCK_STREAM:
            head = _exactly(sock, _HEAD.size, fds, deadline)
            body = _exactly(sock, _body_size(head), fds, deadline)
        else:
            message = _some(sock, _HEAD.size + _LONGEST, fds, deadline)
            head, body = message[: _HEAD.size], message[_HEAD.size :]
            if len(body) != _body_size(head):
                raise ValueError(f"a handle's message says {_body_size(head)} bytes and has {len(body)}")
        told = Particulars.from_json(body)
        if len(fds) != told.files:
            plural = "s" if told.files > 1 else ""
            raise ValueError(
                f"a handle comes with {told.files} descriptor{plural}, not {len(fds)}; what came was closed"
            )
        return RingHandle(fds[0], fds[1], told) if told.files == 2 else RegionHandle(fds[0], told)
    except BaseException:
        for fd in fds:  # at once: the error's traceback would keep them
            fd.close()
        raise


def _body_size(head: bytes) -> int:
    if len(head) != _HEAD.size:
        raise ValueError(f"a handle's message has at least {_HEAD.size} bytes, not {len(head)}")
    magic, version, length = _HEAD.unpack(head)
    if magic != _MAGIC:
        raise ValueError(f"what came is no zerosys handle: it starts with {magic!r}")
    if version != _VERSION:
        raise ValueError(
            f"a handle of version {version} came, this zerosys reads {_VERSION}: use one version"
        )
    if not 0 < length <= _LONGEST:
        raise ValueError(f"a handle's particulars are 1 to {_LONGEST} bytes, not {length}")
    return int(length)


def _exactly(sock: socket.socket, count: int, fds: list[Descriptor], deadline: float) -> bytes:
    data = b""
    while len(data) < count:
        data += _some(sock, count - len(data), fds, deadline)
    return data


def _some(sock: socket.socket, count: int, fds: list[Descriptor], deadline: float) -> bytes:
    """Up to *count* bytes; the descriptors that come with them go into *fds* at once."""
    while True:
        try:
            data, came, flags = receive_fds(sock, count)
        except BlockingIOError:
            _wait(sock, select.POLLIN, deadline, "recv")
            continue
        fds += came
        if flags & socket.MSG_CTRUNC:
            raise OSError(
                errno.EMFILE,
                "recvmsg: more descriptors came than RLIMIT_NOFILE allows (ulimit -n): all were closed",
            )
        if flags & socket.MSG_TRUNC:
            raise ValueError(f"a handle's message is at most {count} bytes, and a longer one came")
        if not data:
            raise EOFError("the other side closed the socket before a whole handle came")
        return data


def _deadline(timeout: float | None) -> float:
    return math.inf if timeout is None else time.monotonic() + waiting(timeout)


def _wait(sock: socket.socket, event: int, deadline: float, call: str) -> None:
    poll = select.poll()
    poll.register(sock, event)
    # A day at most: poll() takes no more than 24 of them, and the caller asks again.
    left = min(deadline - time.monotonic(), 86400)
    if left <= 0 or (not poll.poll(max(1, math.ceil(left * 1000))) and left < 86400):
        raise TimeoutError(f"handle.{call}: the other side did nothing until the timeout")
