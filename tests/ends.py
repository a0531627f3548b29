"""Ends for transfers: files, pipes and sockets with their far sides, and what they hold."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    before = descriptors()
    yield
    assert descriptors() == before


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return near, far


def shrink(sender: socket.socket, receiver: socket.socket) -> None:
    """Make the way as narrow as the kernel allows, a few KiB."""
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


def read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 16):
        parts.append(part)
    return b"".join(parts)


class Background:
    """Run *work* in a thread; result() waits for it, at most 30 s, and passes its failure on."""

    def __init__(self, work, *arguments):
        self._outcome = None
        self._failure = None
        self._thread = threading.Thread(target=self._run, args=(work, arguments), daemon=True)
        self._thread.start()

    def _run(self, work, arguments):
        try:
            self._outcome = work(*arguments)
        except BaseException as failure:
            self._failure = failure

    def result(self):
        self._thread.join(30)
        assert not self._thread.is_alive(), "the background work hangs"
        if self._failure:
            raise self._failure
        return self._outcome


class Source:
    """A descriptor that gives *data* and then ends, of the *kind* named."""

    def __init__(self, kind: str, data: bytes, folder: Path):
        self._feeder = None
        if kind == "file":
            path = folder / "source"
            path.write_bytes(data)
            self.fd = os.open(path, os.O_RDONLY)
            return
        if kind == "pipe":
            self.fd, far = os.pipe()
        else:
            near, peer = tcp_pair() if kind == "tcp" else socket.socketpair()
            self.fd, far = near.detach(), peer.detach()
        self._feeder = Background(_feed, far, data)

    def close(self) -> None:
        os.close(self.fd)
        if self._feeder:
            self._feeder.result()


def _feed(fd: int, data: bytes) -> None:
    with contextlib.suppress(OSError), open(fd, "wb", buffering=0) as far:
        view = memoryview(data)
        while view:
            view = view[far.write(view) :]


class Sink:
    """A descriptor of the *kind* named; received() closes it and tells what arrived."""

    def __init__(self, kind: str, folder: Path):
        self._path = None
        if kind == "file":
            self._path = folder / "sink"
            self.fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            return
        if kind == "pipe":
            self._far, self.fd = os.pipe()
        else:
            near, peer = tcp_pair() if kind == "tcp" else socket.socketpair()
            self.fd, self._far = near.detach(), peer.detach()
        self._reader = Background(read_all, self._far)

    def received(self) -> bytes:
        os.close(self.fd)
        if self._path:
            return self._path.read_bytes()
        data = self._reader.result()
        os.close(self._far)
        return data
