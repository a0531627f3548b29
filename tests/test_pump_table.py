"""Every row of the pages about replaced lines: both are run, and what they write and print is compared."""

import contextlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import installed
from ends import Background, read_all
from peers import SEARCHED, free_port, tool

from zerosys.cli import TOOLS

TREE = Path(__file__).resolve().parent.parent
DATA = os.urandom(1_234_567)
_ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (.*?) ?\|$", re.MULTILINE)
PAGES = ("docs/pump.md", "docs/howto/replace-numactl-pv-socat.md")
ROWS = [
    tuple(part.replace(r"\|", "|") for part in row)
    for page in PAGES
    for row in _ROW.findall((TREE / page).read_text())
]
RIVALS = ("migratepages", "numactl", "numastat", "pv", "socat")
# What runs where a row places it: it tells where it was placed.
SOLVER = "#!/bin/sh\nnumactl --show\n"


def test_every_rival_is_in_the_table():
    words = {word for rival, _, _ in ROWS for word in rival.split()}
    assert {"cat", "tee", *RIVALS} <= words
    assert len(ROWS) > 20


def address_of(where: str, folder: Path, environment: dict[str, str]):
    """The family and address of ``$PORT``, ``$FAR`` or ``sock``."""
    if where.startswith("$"):
        return socket.AF_INET, ("127.0.0.1", int(environment[where[1:]]))
    return socket.AF_UNIX, str(folder / where)


def listening(family, address) -> socket.socket:
    listener = socket.socket(family)
    if family == socket.AF_INET:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen()
    return listener


def connected(family, address) -> socket.socket:
    """A connection to whoever will listen there within 30 s."""
    for _ in range(3000):
        near = socket.socket(family)
        try:
            near.connect(address)
        except OSError:
            near.close()
            time.sleep(0.01)
        else:
            return near
    raise AssertionError(f"nobody listens at {address}")


def take(listener):
    with listener, listener.accept()[0] as near:
        return read_all(near.fileno())


def give(listener):
    with listener, listener.accept()[0] as near:
        near.sendall(DATA)


def echo(listener):
    with listener, listener.accept()[0] as near:
        got = read_all(near.fileno())
        near.sendall(got[::-1])
        near.shutdown(socket.SHUT_WR)


def write(family, address):
    with connected(family, address) as near:
        near.sendall(DATA)


def ask(family, address):
    with connected(family, address) as near:
        near.sendall(DATA)
        near.shutdown(socket.SHUT_WR)
        return read_all(near.fileno())


@contextlib.contextmanager
def peers(text: str, folder: Path, environment: dict[str, str]) -> Iterator[list[Background]]:
    """Those whom the table names in its last column, each in a thread."""
    listens = {"a reader at": take, "a giver at": give, "an echo at": echo}
    connects = {"a writer to": write, "a client of": ask}
    found = re.findall(r"(an? \w+ \w+) `(.+?)`", text)
    assert len(found) == text.count("`") // 2
    started = []
    for words, where in found:
        family, address = address_of(where, folder, environment)
        if words in listens:
            started.append(Background(listens[words], listening(family, address)))
        else:
            started.append(Background(connects[words], family, address))
    yield started


def run(line: str, text: str, folder: Path, path: Path):
    """Run *line* in *folder*; its status, what it printed, the files it left, what the peers got."""
    folder.mkdir()
    (folder / "in").write_bytes(DATA)
    (folder / "log").write_bytes(b"before\n")
    (folder / "solver").write_text(SOLVER)
    (folder / "solver").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{path}:{SEARCHED}",
        "PYTHONPATH": str(TREE),
        "PORT": str(free_port()),
        "FAR": str(free_port()),
    }
    with peers(text, folder, environment) as started:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=folder,
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        got = [peer.result() for peer in started]
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    return done.returncode, done.stdout, files, got


@pytest.mark.parametrize(("rival", "ours", "text"), ROWS, ids=[rival for rival, _, _ in ROWS])
def test_both_lines_give_the_same_bytes(rival, ours, text, tmp_path):
    for name in RIVALS:
        if name in rival.split():
            tool(name)
    path = installed(tmp_path / "bin", *(f"zerosys-{name}" for name in TOOLS))
    theirs = run(rival, text, tmp_path / "theirs", path)
    assert run(ours, text, tmp_path / "ours", path) == theirs
    assert theirs[0] == 0
