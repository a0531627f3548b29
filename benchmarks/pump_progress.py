"""What share of the CPU time of `producer | zerosys pump - | consumer` goes into the progress on a terminal?

Two runs beside each other differ by more than the one hundredth that is asked for, on any machine that does
something else too (pump_shell has them). So this is one run, and its own clock: the thread's CPU time in all
that is done for the display (each result that is made for it, and the drawing), as a part of the
process's CPU time from the first byte on; the start of the interpreter would only hide it. The bytes are
counted, and so are the lines that were drawn: ten a second. Beside it the share with a display that
does nothing else than to be called.
"""

import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import HERE, Bar, Row, main
from benchmarks.pump_shell import PRODUCER, swallow

CHILD = """
import sys, time
from zerosys.cli.pump import carrying, main
from zerosys.cli.pump.progress import Progress
from zerosys.pumps import pumping

spent, drawn = 0.0, 0

def timed(call):
    def timing(*arguments):
        global spent
        begun = time.thread_time()
        done = call(*arguments)
        spent += time.thread_time() - begun
        return done
    return timing

def counted(call):
    def counting(*arguments):
        global drawn
        drawn += 1
        return call(*arguments)
    return counting

show = Progress.show if sys.argv[2] == "drawn" else lambda self, result: None
Progress.show = counted(timed(show))
pumping.result_of = timed(pumping.result_of)
begun, since = time.process_time(), time.perf_counter()
status = main(["-"], "zerosys pump")
used = time.process_time() - begun
with open(sys.argv[1], "w") as told:
    print(spent / used, drawn, time.perf_counter() - since, file=told)
sys.exit(status)
"""


def share(size: int, how: str) -> Callable[[], float]:
    """The share in a pipeline of *size* bytes whose display is "drawn", or only "called"."""

    def measure() -> float:
        with tempfile.TemporaryDirectory(prefix="zerosys-bench-") as folder:
            told = Path(folder, "told")
            master, slave = pty.openpty()
            threading.Thread(target=swallow, args=(master,), daemon=True).start()
            producer = subprocess.Popen([*PRODUCER, str(size), "/dev/zero"], stdout=subprocess.PIPE)
            middle = subprocess.Popen(
                [sys.executable, "-c", CHILD, told, how],
                cwd=HERE.parent,
                stdin=producer.stdout,
                stdout=subprocess.PIPE,
                stderr=slave,
            )
            consumer = subprocess.Popen(["wc", "-c"], stdin=middle.stdout, stdout=subprocess.PIPE, text=True)
            assert producer.stdout and middle.stdout
            producer.stdout.close()
            middle.stdout.close()
            os.close(slave)
            counted = consumer.communicate()[0]
            if int(counted) != size or middle.wait() or producer.wait():
                raise AssertionError(f"{counted.strip()} of {size} bytes arrived")
            part, drawn, seconds = map(float, told.read_text().split())
            if drawn < 5 * (seconds - 0.2):
                raise AssertionError(f"{drawn:.0f} lines were drawn in {seconds:.1f} s, and not ten a second")
            return part

    return measure


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    size = (64 << 20) if quick else (4 << 30)
    rows = [
        Row("the display, drawn", share(size, "drawn")),
        Row("the display, called", share(size, "called")),
    ]
    yield rows, [Bar(rows[0].name, None, plus=0.01)]


if __name__ == "__main__":
    main("pump_progress", "of the CPU time", build)
