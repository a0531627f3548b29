"""What does `zerosys run` cost before the command runs, against starting Python, and against numactl?

Figures are milliseconds of a whole process that places itself and becomes `true`: by the clock, and of the
processor, which a busy machine disturbs less. The answer that is checked: the command gets the CPUs and the
policy that numactl, where it is installed, gives it.
"""

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zerosys
from benchmarks.common import Bar, Row, main
from benchmarks.import_time import interpreter

PYTHON, RUN = "python -c pass", "zerosys run -N 0 -m 0 true"
LINK = "numactl, being ours, -N 0 -m 0 true"
PROCESSOR = "processor"
PLACED = ["-N", "0", "-m", "0"]
SEEN = "grep ^Cpus_allowed_list: /proc/self/status; sed 's/ file=.*//; s/[^ ]* //; q' /proc/self/numa_maps"
# What pip installs as the command, for this interpreter.
SCRIPT = f"#!{sys.executable}\nimport sys\n\nfrom zerosys.cli import main\n\nsys.exit(main())\n"


def rows_of(name: str, command: list[str]) -> list[Row]:
    """*command* by the clock, and the same by the processor's time."""

    def measure(processor: bool) -> float:
        start = time.perf_counter()
        child = os.posix_spawn(command[0], command, os.environ)
        _, status, used = os.wait4(child, 0)
        took = time.perf_counter() - start
        if status:
            raise AssertionError(f"{name} ended with status {status}")
        return (used.ru_utime + used.ru_stime if processor else took) * 1e3

    return [Row(name, lambda: measure(False)), Row(f"{name}: {PROCESSOR}", lambda: measure(True))]


def seen(launcher: list[str]) -> str:
    done = subprocess.run([*launcher, "sh", "-c", SEEN], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    compileall.compile_dir(zerosys.__path__[0], quiet=1)  # as pip does where it installs
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "zerosys")
        script.write_text(SCRIPT)
        script.chmod(0o755)
        (script.parent / "numactl").symlink_to("zerosys")
        run, link = [str(script), "run", *PLACED], [str(script.parent / "numactl"), *PLACED]
        rows = rows_of(PYTHON, [interpreter(), "-c", "pass"])
        theirs = shutil.which("numactl")
        placed = seen([theirs, *PLACED] if theirs else run)
        for launcher in (run, link):
            if seen(launcher) != placed or "bind:0" not in placed:
                raise AssertionError(f"{launcher} gives {seen(launcher)!r}, numactl {placed!r}")
        if theirs:
            rows += rows_of("numactl -N 0 -m 0 true", [theirs, *PLACED, "true"])
        rows += rows_of(RUN, [*run, "true"]) + rows_of(LINK, [*link, "true"])
        bars = [Bar(name, PYTHON, plus=20) for name in (RUN, LINK)]
        bars += [Bar(f"{name}: {PROCESSOR}", f"{PYTHON}: {PROCESSOR}", plus=20) for name in (RUN, LINK)]
        yield rows, bars


if __name__ == "__main__":
    main("run_cost", "ms a process", build, slices=15)
