"""Where bytes come from and go to, as an argument of the command names it.

-                        standard input, or output
PATH, file:PATH          a file; a named pipe or a device is opened as it is
pipe:PATH                a named pipe, made if there is none, and removed again then
fd:N                     descriptor N, as the shell opened it
tcp://HOST:PORT          a connection to it; [ADDRESS] for IPv6
tcp-listen://HOST:PORT   the first who connects; no HOST is any address, port 0 is told
unix:PATH, unix-listen:PATH   the same by a Unix socket
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches

GRAMMAR = (__doc__ or "").partition("\n\n")[2].rstrip()
SOCKETS = ("tcp", "tcp-listen", "unix", "unix-listen")
# How each kind with a name of its own is written: the name, and what stands behind it.
_SCHEMES = {
    "fd": "fd:",
    "file": "file:",
    "pipe": "pipe:",
    "tcp": "tcp://",
    "tcp-listen": "tcp-listen://",
    "unix": "unix:",
    "unix-listen": "unix-listen:",
}
_HIGHEST_FD = 2**31 - 1


@dataclass(frozen=True)
class Place:
    """One such argument: what kind, and the path, number or (host, port) in it."""

    text: str
    kind: str  # "standard", "file", "pipe", "fd" or one of SOCKETS
    path: str = ""
    address: tuple[str, int] = ("", 0)

    @property
    def listens(self) -> bool:
        """Whether somebody else has to connect."""
        return self.kind.endswith("-listen")


def place(text: str) -> Place:
    """The place that *text* names. Raises ValueError for one that no place can be."""
    if text == "-":
        return Place(text, "standard")
    for kind in ("tcp-listen", "tcp"):
        if text.startswith(f"{kind}://"):
            return Place(text, kind, address=_address(text, text[len(kind) + 3 :], kind))
    for kind in ("file", "pipe", "unix-listen", "unix"):
        if text.startswith(f"{kind}:"):
            path = text[len(kind) + 1 :]
            if not path:
                raise ValueError(f"{text!r} names no path: {kind}:PATH")
            return Place(text, kind, path)
    if text.startswith("fd:"):
        number = text[3:].lstrip("0") or text[3:4]
        if not number.isdecimal() or len(number) > 10 or int(number) > _HIGHEST_FD:
            raise ValueError(f"{text!r} names no descriptor: fd:N, such as fd:3, N at most {_HIGHEST_FD}")
        return Place(text, "fd", str(int(number)))
    if not text:
        raise ValueError("an empty argument names no place; - is standard input or output")
    _refuse_unknown_scheme(text)
    return Place(text, "file", text)


def _refuse_unknown_scheme(text: str) -> None:
    """A misspelt address would else become a file of that name."""
    scheme, colon, rest = text.partition(":")
    is_word = scheme[:1].isalpha() and scheme.isascii() and scheme.replace("-", "").replace("+", "").isalnum()
    if not colon or not is_word or os.path.lexists(text):
        return
    near = get_close_matches(scheme.lower(), _SCHEMES, 1)
    if not near:
        known = ", ".join(_SCHEMES.values())
        raise ValueError(f"{text!r} names no place: there are {known}; a file of that name is ./{text}")
    right = _SCHEMES[near[0]]
    meant = right + (rest.lstrip("/") if right.endswith("//") else rest)
    raise ValueError(f"{text!r} names no place: did you mean {meant}? A file of that name is ./{text}")


def _address(text: str, rest: str, kind: str) -> tuple[str, int]:
    host, colon, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} has no port from 0 to 65535: {kind}://HOST:PORT")
    if kind == "tcp" and not host:
        raise ValueError(f"{text!r} has no host: tcp://HOST:PORT")
    return host, int(port)


@contextmanager
def opened(where: Place, *, writes: bool, append: bool = False, say: str = "") -> Iterator[int]:
    """A descriptor for *where*, to read or to write, which is closed again unless it was there before.

    A file that is there keeps its bytes, until its owner has seen that it is not the source. *say*
    begins the line on stderr that tells where it listens. Raises OSError.
    """
    if where.kind == "standard":
        yield 1 if writes else 0
    elif where.kind == "fd":
        os.fstat(int(where.path))
        yield int(where.path)
    elif where.kind in SOCKETS:
        with connected(where, say) as near:
            yield near.fileno()
    elif where.kind == "pipe":
        with _named_pipe(where.path, writes) as fd:
            yield fd
    else:
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0) if writes else os.O_RDONLY
        fd = os.open(where.path, flags | os.O_CLOEXEC, 0o666)
        try:
            yield fd
        finally:
            os.close(fd)


@contextmanager
def _named_pipe(path: str, writes: bool) -> Iterator[int]:
    made = False
    with suppress(FileExistsError):
        os.mkfifo(path)
        made = True
    try:
        if not stat.S_ISFIFO(os.stat(path).st_mode):
            raise FileExistsError(17, "there is something else than a named pipe", path)
        fd = os.open(
            path, (os.O_WRONLY if writes else os.O_RDONLY) | os.O_CLOEXEC
        )  # until the other side does
        try:
            yield fd
        finally:
            os.close(fd)
    finally:
        if made:
            with suppress(FileNotFoundError):
                os.unlink(path)


@contextmanager
def connected(where: Place, say: str = "") -> Iterator[socket.socket]:
    """The connection that *where* names: made to it, or by the first who comes."""
    if not where.listens:
        with _connect(where) as near:
            yield near
        return
    with listening(where, say) as listener:
        near, _ = listener.accept()
    with near:
        yield near


def _connect(where: Place) -> socket.socket:
    if where.kind == "tcp":
        return socket.create_connection(where.address)
    near = socket.socket(socket.AF_UNIX)
    try:
        near.connect(where.path)
    except BaseException:
        near.close()
        raise
    return near


@contextmanager
def listening(where: Place, say: str = "") -> Iterator[socket.socket]:
    """A socket that listens where *where* says; the name of a Unix one goes with it."""
    if where.kind == "tcp-listen":
        host, port = where.address
        both = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family, dualstack_ipv6=both, backlog=1024) as listener:
            _tell(say, "{}:{}".format(*listener.getsockname()[:2]))
            yield listener
        return
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(where.path)
        try:
            listener.listen(1024)
            _tell(say, where.path)
            yield listener
        finally:
            with suppress(FileNotFoundError):
                os.unlink(where.path)


def _tell(say: str, at: str) -> None:
    if say:
        print(f"{say}: listening on {at}", file=sys.stderr, flush=True)
