"""Pipe to pipe from the shell: `producer | zerosys pump - | consumer` and `pv -q`; what does progress cost?

GiB/s over the whole pipeline, start of the interpreter included, and the CPU seconds a GiB of the middle
process alone, which the neighbours of a busy machine disturb less: a producer of zeros (`pv -q` of
/dev/zero would be a rival's own), a consumer that counts what it reads. The bytes are counted each time,
and are so many that the start does not decide. With the display stderr is a pseudo-terminal, on which it
is drawn ten times a second.
"""

import os
import pty
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.common import HERE, Bar, Row, main
from benchmarks.forked import GIB

PRODUCER = ["head", "-c"]
ZEROSYS = [sys.executable, "-m", "zerosys", "pump", "-"]


class Pipeline:
    """``head -c SIZE /dev/zero | command | wc -c``."""

    def __init__(self, command: list[str], size: int, *, terminal: bool = False) -> None:
        self._command, self._size, self._terminal = command, size, terminal
        self._cpu = 0.0

    def rate(self) -> float:
        """GiB/s of one run."""
        master, slave = pty.openpty() if self._terminal else (None, subprocess.DEVNULL)
        start = time.perf_counter()
        producer = subprocess.Popen([*PRODUCER, str(self._size), "/dev/zero"], stdout=subprocess.PIPE)
        middle = subprocess.Popen(
            self._command, cwd=HERE.parent, stdin=producer.stdout, stdout=subprocess.PIPE, stderr=slave
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
        _, status, used = os.wait4(middle.pid, 0)
        middle.returncode = os.waitstatus_to_exitcode(status)
        if int(counted) != self._size or middle.returncode or producer.wait():
            raise AssertionError(f"{counted.strip()} of {self._size} bytes arrived")
        self._cpu = (used.ru_utime + used.ru_stime) / (self._size / GIB)
        return self._size / took / GIB

    def cpu(self) -> float:
        """CPU seconds a GiB of the middle process in the last run."""
        return self._cpu


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
    ways = {
        "zerosys pump -": Pipeline([*ZEROSYS, "--quiet"], size),
        "zerosys pump -, with its progress": Pipeline(ZEROSYS, size, terminal=True),
        "cat": Pipeline(["cat"], size),
    }
    ours, shown, *_ = ways
    bars = [
        Bar(shown, ours, 0.99, at_least=True),
        Bar(f"{shown}: CPU, s a GiB", f"{ours}: CPU, s a GiB", 1.01),
    ]
    if shutil.which("pv"):
        ways["pv -q"] = Pipeline(["pv", "-q"], size)
        bars.insert(0, Bar(ours, "pv -q", 1.0, at_least=True))
    rows = []
    for name, way in ways.items():  # the rate first: it runs the pipeline
        rows += [Row(name, way.rate), Row(f"{name}: CPU, s a GiB", way.cpu)]
    yield rows, bars


if __name__ == "__main__":
    main("pump_shell", "GiB/s, or as named", build)
