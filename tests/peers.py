"""Debian's own tools and servers, as rivals and as peers: on loopback, on free ports, in a test's folder."""

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from needs import need

PACKAGES = {
    "curl": "curl",
    "haproxy": "haproxy",
    "mkfs.xfs": "xfsprogs",
    "modprobe": "kmod",
    "migratepages": "numactl",
    "nginx": "nginx",
    "numactl": "numactl",
    "numastat": "numactl",
    "pv": "pv",
    "socat": "socat",
}
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def tool(name: str) -> str:
    """The path of the tool *name*; the test is skipped where it is not installed."""
    path = shutil.which(name, path=SEARCHED)
    need(name, None if path else f"not installed: apt-get install {PACKAGES[name]}")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(port: int, server: subprocess.Popen) -> None:
    """Return when somebody listens at *port*; fail if *server* ends before."""
    for _ in range(600):
        assert server.poll() is None, f"the server ended with {server.returncode}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens at port {port}")


@contextlib.contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen]:
    """*command* while the block lasts; its output goes to a file in *folder*."""
    with open(folder / f"{Path(command[0]).name}.log", "wb") as log:
        with subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ) as server:
            try:
                yield server
            finally:
                server.terminate()


@contextlib.contextmanager
def relay(*arguments: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """``zerosys relay`` with *arguments*, listening on a free port of loopback; the process and the port."""
    command = [sys.executable, "-m", "zerosys", "relay", "tcp-listen://127.0.0.1:0", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield process, int(process.stderr.readline().rpartition(":")[2])
        finally:
            process.terminate()
