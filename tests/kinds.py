"""Descriptors of every kind that a splicing call may meet, each with something to read and room to write."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

TEXT = b"twelve bytes"


def _file(stack: ExitStack, folder: Path, flags: int) -> int:
    path = folder / f"file{len(list(folder.iterdir()))}"
    path.write_bytes(TEXT)
    return os.open(path, flags)


def _pipe(stack: ExitStack, end: int, fill: bool) -> int:
    ends = os.pipe()
    stack.callback(os.close, ends[1 - end])
    if fill:
        os.write(ends[1], TEXT)
    return ends[end]


def _socket(stack: ExitStack, pair: tuple[socket.socket, socket.socket]) -> int:
    near, far = pair
    stack.enter_context(far)
    far.send(TEXT)
    return near.detach()


def _tcp() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


def _memfd(stack: ExitStack) -> int:
    fd = os.memfd_create("kind")
    os.write(fd, TEXT)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _closed(stack: ExitStack) -> int:
    fd = os.open("/", os.O_RDONLY)
    os.close(fd)
    return 1000 + fd  # a number that no descriptor made meanwhile can take


MAKERS = {
    "file": lambda stack, folder: _file(stack, folder, os.O_RDWR),
    "reading": lambda stack, folder: _file(stack, folder, os.O_RDONLY),
    "writing": lambda stack, folder: _file(stack, folder, os.O_WRONLY),
    "appending": lambda stack, folder: _file(stack, folder, os.O_RDWR | os.O_APPEND),
    "memfd": lambda stack, folder: _memfd(stack),
    "pipe's reading end": lambda stack, folder: _pipe(stack, 0, fill=True),
    "pipe's writing end": lambda stack, folder: _pipe(stack, 1, fill=False),
    "TCP": lambda stack, folder: _socket(stack, _tcp()),
    "Unix": lambda stack, folder: _socket(stack, socket.socketpair()),
    "datagram": lambda stack, folder: _socket(stack, socket.socketpair(type=socket.SOCK_DGRAM)),
    "folder": lambda stack, folder: os.open(folder, os.O_RDONLY),
    "/dev/null": lambda stack, folder: os.open("/dev/null", os.O_RDWR),
    "/dev/zero": lambda stack, folder: os.open("/dev/zero", os.O_RDWR),
    "/proc": lambda stack, folder: os.open("/proc/self/status", os.O_RDONLY),
    "eventfd": lambda stack, folder: os.eventfd(1, os.EFD_NONBLOCK),
    "path only": lambda stack, folder: os.open(folder, os.O_PATH),
    "closed": lambda stack, folder: _closed(stack),
}


@contextmanager
def descriptor(kind: str, folder: Path) -> Iterator[int]:
    """A fresh descriptor of *kind*, closed at the end with all that belongs to it."""
    with ExitStack() as stack:
        fd = MAKERS[kind](stack, folder)
        if kind != "closed":
            stack.callback(os.close, fd)
        yield fd
