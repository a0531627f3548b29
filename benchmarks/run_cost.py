"""What does `zerosys run` cost before the command runs, against starting Python, and against numactl?

Figures are milliseconds of a whole process that places itself and becomes `true`. The answer that is checked:
the command gets the CPUs and the policy that numactl, where it is installed, gives it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import Bar, Row, main
from benchmarks.import_time import interpreter

PLACED = ["-N", "0", "-m", "0"]
SEEN = "grep ^Cpus_allowed_list: /proc/self/status; sed 's/ file=.*//; s/[^ ]* //; q' /proc/self/numa_maps"
# What pip installs as the command, for this interpreter.
SCRIPT = f"#!{sys.executable}\nimport sys\n\nfrom zerosys.cli import main\n\nsys.exit(main())\n"


def row(name: str, command: list[str]) -> Row:
    def measure() -> float:
        start = time.perf_counter()
        child = os.posix_spawn(command[0], command, os.environ)
        _, status = os.waitpid(child, 0)
        took = time.perf_counter() - start
        if status:
            raise AssertionError(f"{name} ended with status {status}")
        return took * 1e3

    return Row(name, measure)


def seen(launcher: list[str]) -> str:
    done = subprocess.run([*launcher, "sh", "-c", SEEN], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "zerosys")
        script.write_text(SCRIPT)
        script.chmod(0o755)
        (script.parent / "numactl").symlink_to("zerosys")
        run, link = [str(script), "run", *PLACED], [str(script.parent / "numactl"), *PLACED]
        rows = [row("python -c pass", [interpreter(), "-c", "pass"])]
        theirs = shutil.which("numactl")
        placed = seen([theirs, *PLACED] if theirs else run)
        for launcher in (run, link):
            if seen(launcher) != placed or "bind:0" not in placed:
                raise AssertionError(f"{launcher} gives {seen(launcher)!r}, numactl {placed!r}")
        if theirs:
            rows.append(row("numactl -N 0 -m 0 true", [theirs, *PLACED, "true"]))
        rows.append(row("zerosys run -N 0 -m 0 true", [*run, "true"]))
        rows.append(row("numactl, being ours, -N 0 -m 0 true", [*link, "true"]))
        yield (
            rows,
            [
                Bar("zerosys run -N 0 -m 0 true", "python -c pass", plus=20),
                Bar("numactl, being ours, -N 0 -m 0 true", "python -c pass", plus=20),
            ],
        )


if __name__ == "__main__":
    main("run_cost", "ms a process", build, slices=15)
