"""What does ``import zerosys`` add to starting the interpreter, and what does it load?

Figures are milliseconds of a whole process, started directly and not through a shim. The answer that is
checked: numpy, psutil, libnuma and CUDA are not loaded, neither as modules nor as shared libraries.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.common import HERE, Bar, Row, main

PROGRAMS = {
    "python -c pass": "pass",
    "import zerosys": "import zerosys",
    "from zerosys import splice": "from zerosys import splice",
}
CHECK = """
import sys
files = {line.rpartition("/")[2].strip() for line in open("/proc/self/maps")}
heavy = ("numpy", "psutil", "libnuma", "libcuda", "libcudart", "cuda")
print(*[name for name in heavy if name in sys.modules or any(file.startswith(name) for file in files)])
"""


def interpreter() -> str:
    """This interpreter by its own name: a shim in PATH would count as ours."""
    with open(sys.executable, "rb") as file:
        if file.read(4) != b"\x7fELF":
            raise SystemExit(f"{sys.executable} is a shim: start the benchmark with the interpreter itself")
    return sys.executable


def run(python: str, program: str) -> str:
    # The parent of benchmarks/ is the current folder, so that -c finds the package there.
    done = subprocess.run([python, "-c", program], cwd=HERE.parent, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().strip()


def row(python: str, name: str, program: str) -> Row:
    def measure() -> float:
        start = time.perf_counter()
        # Spawned without pipes: what is timed is the process and nothing else.
        child = os.posix_spawn(python, [python, "-c", program], os.environ)
        _, status = os.waitpid(child, 0)
        took = time.perf_counter() - start
        if status:
            raise AssertionError(f"{program} ended with status {status}")
        return took * 1e3

    return Row(name, measure)


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    python = interpreter()
    if loaded := run(python, PROGRAMS["import zerosys"] + CHECK):
        raise AssertionError(f"import zerosys loads {loaded}")
    before = os.getcwd()
    os.chdir(HERE.parent)
    try:
        yield (
            [row(python, name, program) for name, program in PROGRAMS.items()],
            [Bar("import zerosys", "python -c pass", plus=8)],
        )
    finally:
        os.chdir(before)


if __name__ == "__main__":
    main("import_time", "ms a process", build, slices=15)
