"""A TCP relay: relay() against C, recv + sendall and the proxies that people run.

Source (sendfile) and receiver are on one CPU, the relay alone on another: CPU seconds a GiB that the relay
takes. Proxies that are not installed are left out (Debian: nginx-light with libnginx-mod-stream, haproxy,
socat).
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int, c_longlong
from pathlib import Path

from benchmarks.common import Bar, Row, c_library, main
from benchmarks.forked import CPUS, GIB, finish, receive, start, tcp_pair
from zerosys import relay

Work = Callable[[socket.socket, socket.socket], object]
Make = Callable[[Path, int, int], list[str]]
BLOCK = os.urandom(1 << 20)

STREAM = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
NGINX = """
load_module {module};
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
events {{ }}
stream {{ server {{ listen 127.0.0.1:{listen}; proxy_pass 127.0.0.1:{to}; proxy_buffer_size 256k; }} }}
"""
HAPROXY = """
global
    tune.pipesize 1048576
defaults
    mode tcp
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen relay
    bind 127.0.0.1:{listen}
    option splice-request
    option splice-response
    server one 127.0.0.1:{to}
"""


def nginx(folder: Path, listen: int, to: int) -> list[str]:
    (folder / "conf").write_text(NGINX.format(module=STREAM, folder=folder, listen=listen, to=to))
    return ["nginx", "-p", str(folder), "-c", str(folder / "conf")]


def haproxy(folder: Path, listen: int, to: int) -> list[str]:
    (folder / "conf").write_text(HAPROXY.format(listen=listen, to=to))
    return ["haproxy", "-db", "-f", str(folder / "conf")]


def socat(folder: Path, listen: int, to: int) -> list[str]:
    return ["socat", "-b", "262144", f"TCP-LISTEN:{listen},bind=127.0.0.1,fork", f"TCP:127.0.0.1:{to}"]


PROGRAMS = {"nginx stream": nginx, "haproxy splice": haproxy, "socat": socat}


def send(sock: socket.socket, file: int, size: int) -> None:
    done = 0
    while done < size:
        done += os.sendfile(sock.fileno(), file, done, size - done)
    sock.shutdown(socket.SHUT_WR)


def by_recv_and_sendall(a: socket.socket, b: socket.socket) -> None:
    def one_way(src: socket.socket, dst: socket.socket) -> None:
        while data := src.recv(256 << 10):
            dst.sendall(data)
        dst.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=one_way, args=(b, a))
    back.start()
    one_way(a, b)
    back.join()


def inside(work: Work, file: int, size: int) -> Callable[..., float]:
    """A relay that is called with both sockets."""

    def measure(check: bytes = b"") -> float:
        client, a = tcp_pair()
        b, server = tcp_pair()
        ends = [
            start(lambda: send(client, file, size), 0),
            start(lambda: (receive(server, size, check), server.shutdown(socket.SHUT_RDWR)), 0),
        ]

        def run() -> None:
            client.close()
            server.close()
            work(a, b)

        worker = start(run, 1)
        for end in (client, a, b, server):
            end.close()
        for pid in ends:
            finish(pid)
        return finish(worker) * GIB / size

    return measure


def is_installed(name: str) -> bool:
    return bool(shutil.which(name.split()[0])) and (name != "nginx stream" or STREAM.exists())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """What a process and its children have run for."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, tail = stat.read_text().rsplit(")", 1)
            if pid in (int(head.split()[0]), int(tail.split()[1])):
                for task in stat.parent.glob("task/*/schedstat"):
                    total += int(task.read_text().split()[0])
    return total / 1e9


class Program:
    """A proxy that listens, forwards to a port of ours, and is asked what CPU it took."""

    def __init__(self, make: Make, folder: Path, file: int, size: int) -> None:
        self._file, self._size = file, size
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port = free_port()
        command = make(folder, self._port, self._server.getsockname()[1])
        self._child = subprocess.Popen(
            ["taskset", "-c", str(CPUS[1 % len(CPUS)]), *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _connect(self) -> socket.socket:
        for _ in range(100):
            try:
                return socket.create_connection(("127.0.0.1", self._port))
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise AssertionError(f"{self._child.args} does not listen")

    def measure(self, check: bytes = b"") -> float:
        client = self._connect()
        server, _ = self._server.accept()
        before = cpu_seconds(self._child.pid)
        ends = [
            start(lambda: send(client, self._file, self._size), 0),
            start(lambda: receive(server, self._size, check), 0),
        ]
        for pid in ends:
            finish(pid)
        taken = cpu_seconds(self._child.pid) - before
        client.close()
        server.close()
        return taken * GIB / self._size

    def close(self) -> None:
        self._child.terminate()
        self._child.wait()
        self._server.close()


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    size = (4 if quick else 512) << 20
    library = c_library("pump")
    library.c_relay.restype, library.c_relay.argtypes = c_longlong, [c_int, c_int]

    def in_c(a: socket.socket, b: socket.socket) -> None:
        if library.c_relay(a.fileno(), b.fileno()) != size:
            raise AssertionError("C relay: not all went")

    def ours(a: socket.socket, b: socket.socket) -> None:
        if relay(a, b, strict=True).forth.moved != size:
            raise AssertionError("relay(): not all was moved")

    with contextlib.ExitStack() as stack:
        file = os.memfd_create("file")
        stack.callback(os.close, file)
        for _ in range(size >> 20):
            os.write(file, BLOCK)
        ways: dict[str, Callable[..., float]] = {
            "C splice": inside(in_c, file, size),
            "recv + sendall": inside(by_recv_and_sendall, file, size),
            "zerosys": inside(ours, file, size),
        }
        for name, make in PROGRAMS.items():
            if is_installed(name):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                program = Program(make, folder, file, size)
                stack.callback(program.close)
                ways[name] = program.measure
            else:
                print(f"{name} is not installed: no row")
        for measure in ways.values():
            measure(BLOCK)  # untimed, and every byte compared
        bars = {
            "recv + sendall": 0.7,
            "nginx stream": 0.6,
            "socat": 0.6,
            "haproxy splice": 1.1,
            "C splice": 1.05,
        }
        yield (
            [Row(name, measure) for name, measure in ways.items()],
            [Bar("zerosys", name, factor) for name, factor in bars.items() if name in ways],
        )


if __name__ == "__main__":
    main("pump_relay", "CPU seconds of the relay a GiB", build)
