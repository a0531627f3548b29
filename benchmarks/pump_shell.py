"""Pipe to pipe from the shell: `producer | zerosys pump - | consumer` and `pv -q`; what does progress cost?

The figure is GiB/s over the whole pipeline, start of the interpreter included: a producer of
zeros (`pv -q` of /dev/zero would be a rival's own), a consumer that counts what it reads. The bytes are
counted each time. With the display stderr is a pseudo-terminal, on which it is drawn ten times a second.
"""

import os
import pty
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.common import HERE, Bar, Row, main

PRODUCER = ["head", "-c"]
ZEROSYS = [sys.executable, "-m", "zerosys", "pump", "-"]


def through(command: list[str], size: int, *, terminal: bool = False) -> Callable[[], float]:
    """GiB/s of ``head -c SIZE /dev/zero | command | wc -c``."""

    def measure() -> float:
        master, slave = pty.openpty() if terminal else (None, subprocess.DEVNULL)
        start = time.perf_counter()
        producer = subprocess.Popen([*PRODUCER, str(size), "/dev/zero"], stdout=subprocess.PIPE)
        middle = subprocess.Popen(
            command, cwd=HERE.parent, stdin=producer.stdout, stdout=subprocess.PIPE, stderr=slave
        )
        consumer = subprocess.Popen(["wc", "-c"], stdin=middle.stdout, stdout=subprocess.PIPE, text=True)
        assert producer.stdout and middle.stdout
        producer.stdout.close()
        middle.stdout.close()
        if master is not None:
            os.close(slave)
            threading.Thread(target=swallow, args=(master,), daemon=True).start()
        counted = consumer.communicate()[0]
        took = time.perf_counter() - start
        if int(counted) != size or middle.wait() or producer.wait():
            raise AssertionError(f"{counted.strip()} of {size} bytes arrived")
        return size / took / (1 << 30)

    return measure


def swallow(master: int) -> None:
    """Read what a terminal shows until its other side is gone."""
    try:
        while os.read(master, 4096):
            pass
    except OSError:
        os.close(master)


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    size = (4 << 20) if quick else (4 << 30)
    rows = [
        Row("zerosys pump -", through([*ZEROSYS, "--quiet"], size)),
        Row("zerosys pump -, with its progress", through(ZEROSYS, size, terminal=True)),
        Row("cat", through(["cat"], size)),
    ]
    bars = [Bar(rows[1].name, rows[0].name, 0.99, at_least=True)]
    if shutil.which("pv"):
        rows.insert(2, Row("pv -q", through(["pv", "-q"], size)))
        bars.insert(0, Bar(rows[0].name, "pv -q", 1.0, at_least=True))
    yield rows, bars


if __name__ == "__main__":
    main("pump_shell", "GiB/s", build)
