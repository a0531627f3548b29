"""How long does `zerosys region ls` take with 1,000 segments, from the shell's point of view?

Figures are seconds, start of the interpreter included; every name, the pages of each by node and who has it
are in the answer, which is checked. Beside it `ls -l /dev/shm`, which tells names and sizes alone.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.common import HERE, Bar, Row, main
from zerosys import SharedRegion

SHM = "/dev/shm"
PAGES = 4
ZEROSYS = [sys.executable, "-m", "zerosys", "region", "ls"]


def timed(command: list[str], check: Callable[[str], None]) -> Callable[[], float]:
    """Run *command* once, check what it prints, and give the seconds it took."""

    def measure() -> float:
        start = time.perf_counter()
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True)
        took = time.perf_counter() - start
        check(done.stdout)
        return took

    return measure


def told(prefix: str, count: int, state: str) -> Callable[[str], None]:
    """That each of our *count* segments is in the JSON, placed, in *state*, attached by us or nobody."""

    def check(text: str) -> None:
        ours = [one for one in json.loads(text) if one["name"].startswith(prefix)]
        holders = [os.getpid()] if state == "in use" else []
        wrong = [
            one
            for one in ours
            if one["state"] != state
            or sum(one["nodes"].values()) != PAGES
            or [process["pid"] for process in one["attached"]] != holders
        ]
        if wrong or len(ours) != count:
            raise AssertionError(f"{len(ours)} of {count} segments listed, {len(wrong)} of them wrongly")

    return check


def has_all(prefix: str, count: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text.count(prefix) < count:
            raise AssertionError(f"{text.count(prefix)} of {count} segments listed")

    return check


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    count = 10 if quick else 1000
    used, left = (f"zerosys-ls-{kind}-{secrets.token_hex(4)}-" for kind in ("used", "left"))
    size = PAGES * os.sysconf("SC_PAGE_SIZE")
    with ExitStack() as stack:
        for n in range(count // 2):
            region = stack.enter_context(SharedRegion.create(size, name=f"{used}{n}"))
            stack.callback(region.unlink)
            orphan = SharedRegion.create(size, name=f"{left}{n}")
            stack.callback(orphan.unlink)
            orphan.close()

        def both(text: str) -> None:
            told(used, count // 2, "in use")(text)
            told(left, count // 2, "orphan")(text)

        rows = [
            Row("zerosys region ls", timed(ZEROSYS, has_all("zerosys-ls-", count))),
            Row("zerosys region ls --json", timed([*ZEROSYS, "--json"], both)),
            Row("ls -l /dev/shm", timed(["ls", "-l", SHM], has_all("zerosys-ls-", count))),
        ]
        yield rows, [Bar(row.name, None, plus=1.0) for row in rows[:2]]


if __name__ == "__main__":
    main("region_ls", "s with 1,000 segments", build)
