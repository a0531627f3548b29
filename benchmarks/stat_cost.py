"""What does `zerosys stat` of a process with 100,000 mappings cost, in time and in memory?

Seconds are the shell's point of view, start of the interpreter included; what is told is checked
against what the process made. Beside it the kernel's own share, a bare read of the same file, and
Debian's numastat, where it is installed. Memory is the peak of the command, with many mappings and
with few: it is to be the same.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.common import HERE, Bar, Row, main

LIMIT = Path("/proc/sys/vm/max_map_count")
PAGE = 4096
# Every second page is made read-only: neighbours that differ are mappings of their own.
MAKER = """import ctypes, mmap, sys
pairs = int(sys.argv[1])
memory = mmap.mmap(-1, pairs * 8192, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(bytes(pairs * 8192))
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for pair in range(pairs):
    if libc.mprotect(start + pair * 8192, 4096, mmap.PROT_READ):
        raise OSError(ctypes.get_errno(), "mprotect")
print("ready", flush=True)
sys.stdin.read()
"""
# A file each, without a name in any folder: no two lines of numa_maps are alike.
FILES = """import ctypes, mmap, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for number in range(2 * int(sys.argv[1])):
    file = os.memfd_create(f"file{number}")
    os.write(file, bytes(4096))
    at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED | mmap.MAP_POPULATE, file, 0)
    if at == ctypes.c_void_p(-1).value:
        raise OSError("mmap")
    os.close(file)
print("ready", flush=True)
sys.stdin.read()
"""
# The peak of this very program: what wait4() tells is at least that of whoever started it.
PEAK = """import sys, zerosys.cli
sys.argv = ["zerosys", *sys.argv[1:]]
zerosys.cli.main()
print(open("/proc/self/status").read(), file=sys.stderr)
"""


@contextmanager
def limit(mappings: int) -> Iterator[None]:
    """Have the kernel allow that many mappings, which takes root, and put its limit back."""
    before = LIMIT.read_text()
    if int(before) >= mappings:
        yield
        return
    LIMIT.write_text(str(mappings))
    try:
        yield
    finally:
        LIMIT.write_text(before)


@contextmanager
def process(pairs: int, code: str = MAKER) -> Iterator[int]:
    """A process with two mappings for each of *pairs*."""
    command = [sys.executable, "-c", code, str(pairs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        if made.stdout is None or made.stdout.readline() != "ready\n":
            raise RuntimeError("the process with many mappings could not be made")
        try:
            yield made.pid
        finally:
            made.kill()


def timed(command: list[str], check: Callable[[str], None]) -> Callable[[], float]:
    def measure() -> float:
        start = time.perf_counter()
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True)
        took = time.perf_counter() - start
        check(done.stdout)
        return took

    return measure


def peak(pid: int, check: Callable[[str], None]) -> Callable[[], float]:
    """The most memory that the command ever had, in MiB."""

    def measure() -> float:
        command = [sys.executable, "-c", PEAK, "stat", str(pid), "--json"]
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True)
        check(done.stdout)
        found = re.search(r"VmHWM:\s+(\d+) kB", done.stderr)
        if found is None:
            raise AssertionError("the kernel did not tell the peak")
        return int(found[1]) / 1024

    return measure


def tells(pairs: int, kind: str = "anonymous") -> Callable[[str], None]:
    """That the JSON has all mappings and pages that were made, which are of *kind*."""

    def check(text: str) -> None:
        [one] = json.loads(text)["processes"]
        groups = [group for group in one["mapped"] if group["kind"] == kind]
        mappings, size = (sum(group[what] for group in groups) for what in ("mappings", "bytes"))
        if mappings < 2 * pairs or size < 2 * pairs * PAGE:
            raise AssertionError(f"of {2 * pairs} mappings {mappings} with {size} bytes are told")

    return check


def has_lines(count: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text.count("\n") < count:
            raise AssertionError(f"{text.count(chr(10))} lines, and {count} are to be told")

    return check


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    pairs, few = (500, 50) if quick else (50_000, 50)
    many = f"{2 * pairs:,} mappings"
    with ExitStack() as stack:
        stack.enter_context(limit(2 * pairs + 10_000))
        large, small = stack.enter_context(process(pairs)), stack.enter_context(process(few))
        files = stack.enter_context(process(pairs, FILES))
        stat = [sys.executable, "-m", "zerosys", "stat", "--json"]
        rows = [
            Row("zerosys stat", timed([*stat, str(large)], tells(pairs))),
            Row("zerosys stat, a file each", timed([*stat, str(files)], tells(pairs, "file"))),
            Row("cat numa_maps", timed(["cat", f"/proc/{large}/numa_maps"], has_lines(2 * pairs))),
            Row(
                "cat numa_maps, a file each", timed(["cat", f"/proc/{files}/numa_maps"], has_lines(2 * pairs))
            ),
        ]
        if shutil.which("numastat"):
            rows.append(Row("numastat -p", timed(["numastat", "-p", str(large)], has_lines(8))))
        rows += [
            Row(f"peak MiB, {many}", peak(large, tells(pairs))),
            Row(f"peak MiB, {many}, a file each", peak(files, tells(pairs, "file"))),
            Row(f"peak MiB, {2 * few} mappings", peak(small, tells(few))),
        ]
        times = [Bar(row.name, None, plus=2.0) for row in rows[:2]]
        yield rows, [*times, *(Bar(row.name, rows[-1].name, factor=1.1) for row in rows[-3:-1])]


if __name__ == "__main__":
    main("stat_cost", "s (MiB where said)", build)
