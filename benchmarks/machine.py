"""The machine: what it is, whether it is idle, and what others take of it meanwhile."""

import os
import platform
import resource
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def machine() -> dict[str, str]:
    """What the figures depend on."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":")[1].strip() for line in cpuinfo.splitlines() if "model name" in line), "?")
    return {
        "cpu": f"{len(os.sched_getaffinity(0))} x {model}",
        "kernel": platform.release(),
        "python": f"{platform.python_version()} {platform.python_compiler()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "date": time.strftime("%Y-%m-%d"),
    }


def busy_seconds() -> float:
    """CPU seconds that others have taken since boot: other processes, interrupts, the hypervisor."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    ours = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK") - ours


class Quiet:
    """Waits for an idle machine before what is measured, and says what others took meanwhile."""

    def __init__(self, patience: float = 20.0, limit: float = 0.1) -> None:
        self.patience, self.limit = patience, limit
        self.taken: list[float] = []  # cores, one a round
        self._others = self._seconds = 0.0

    def wait(self) -> None:
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            before = busy_seconds()
            time.sleep(0.25)
            if (busy_seconds() - before) / 0.25 <= self.limit:
                return

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Wait, then count what others take while the body runs."""
        self.wait()
        before, start = busy_seconds(), time.monotonic()
        yield
        self._others += max(0.0, busy_seconds() - before)
        self._seconds += time.monotonic() - start

    def end_round(self) -> None:
        self.taken.append(self._others / self._seconds)
        self._others = self._seconds = 0.0

    def __str__(self) -> str:
        typical, worst = statistics.median(self.taken), max(self.taken)
        noisy = " (BUSY: trust the order, not the figures)" if typical > 0.1 or worst > 0.5 else ""
        return f"{typical:.2f} cores at the median, {worst:.2f} at worst{noisy}"
