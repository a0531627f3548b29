"""Run tests and snippets on several NUMA nodes: inside a throw-away virtual machine.

The files in tests/guest/SHAPE/ run inside a guest of that shape, all in one boot (tests/test_guest.py
starts it). They see the same tree and the same interpreter; ZEROSYS_GUEST names the shape.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from needs import need

TREE = Path(__file__).resolve().parent.parent
NUMA_VM = TREE / "tools" / "numa-vm"
NO_GUEST = 125  # numa-vm's own exit code when it cannot boot one
# Under emulation a kernel with several CPUs now and then trips over the code that it patches while it
# starts. Nothing of ours has run by then, so that another boot hides nothing.
NO_BOOT, BOOTS = "no boot", 3

# A node with the fourth CPU and no memory, for which numa-vm has no flag. The kernel numbers nodes
# with CPUs first: it becomes node 2, and the one with memory alone node 3.
_CPU_ONLY = "-smp 4,sockets=4,cores=1,threads=1 -numa node,nodeid=3,cpus=3" + "".join(
    f" -numa dist,src={a},dst={b},val={10 if a == b else 21}"
    for a, b in [(3, 3), *((3, n) for n in range(3)), *((n, 3) for n in range(3))]
)

# What the firmware of four nodes in two pairs tells: nanoseconds and MiB a second, by distance.
_NEAR, _BESIDE, _FAR = (100, 8192), (120, 6144), (210, 3072)
_HMAT = "-machine hmat=on" + "".join(
    f" -numa hmat-lb,initiator={a},target={b},hierarchy=memory,data-type={measure}"
    for a in range(4)
    for b in range(4)
    for latency, bandwidth in [_NEAR if a == b else _BESIDE if a ^ b == 1 else _FAR]
    for measure in (f"access-latency,latency={latency}", f"access-bandwidth,bandwidth={bandwidth}M")
)

# Each is a folder of tests/guest/. Sizes are small: a guest takes memory only as it touches it.
# Both kernels that Debian 12 has are run: 6.12 knows weighted interleaving, 6.1 does not.
SHAPES: dict[str, tuple[str, ...]] = {
    # two ordinary nodes with a pool of huge pages each
    "two": ("--kernel", "6.1", "--nodes", "2", "--mem", "768M", "--hugepages", "16"),
    # four ordinary nodes in two pairs, with huge pages, and firmware that tells how fast they are
    "four": (
        "--kernel", "6.12", "--nodes", "4", "--mem", "384M", "--cpus", "8",
        "--hugepages", "12", "--distance", "10,12,21,22;12,10,22,21;21,22,10,12;22,21,12,10",
        *(f"--qemu-arg={word}" for word in _HMAT.split()),
    ),
    # nodes of different sizes, node 2 without memory, node 3 without a CPU; swap
    "odd": (
        "--kernel", "6.12", "--nodes", "2", "--memory-only-node", "--mem", "768M,384M,256M", "--cpus", "3",
        "--swap", "256M",
        *(f"--qemu-arg={word}" for word in _CPU_ONLY.split()),
    ),
}  # fmt: skip


@cache
def refusal() -> str | None:
    """Why this machine boots no guest, or None if it does. The first call may install QEMU."""
    if os.environ.get("ZEROSYS_GUEST"):
        return "this is a guest"
    done = subprocess.run(
        [NUMA_VM, "--setup"], capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return lines[0] if lines else f"numa-vm --setup ended with {done.returncode}"
    return None


def run(shape: str, command: Sequence[str], *, timeout: float = 1500) -> subprocess.CompletedProcess:
    """Run *command* in a fresh guest of *shape*, in the tree's folder; capture what it says."""
    need("guest", refusal())
    for _ in range(BOOTS):
        done = subprocess.run(
            [NUMA_VM, *SHAPES[shape], "--timeout", str(timeout), "--", *command],
            cwd=TREE, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "ZEROSYS_GUEST": shape, "ZEROSYS_REQUIRE": "numa"},
        )  # fmt: skip
        if done.returncode != NO_GUEST or NO_BOOT not in done.stderr:
            break
    if done.returncode == NO_GUEST:
        need("guest", f"no guest of shape {shape!r}: {done.stderr.strip()[-2000:]}")
    return done


def python(shape: str, code: str, **options) -> subprocess.CompletedProcess:
    """Run Python *code* in a guest of *shape*."""
    return run(shape, [sys.executable, "-c", code], **options)


def judge(done: subprocess.CompletedProcess) -> str:
    """The closing line of a pytest run that passed; AssertionError, with its report, for any other.

    A run in which no test passed has proved nothing, and fails.
    """
    report = f"\n--- inside:\n{done.stdout}{done.stderr}"
    assert done.returncode == 0, f"ended with {done.returncode}{report}"
    closing = done.stdout.rstrip().splitlines()[-1]
    assert re.search(r"\b[1-9][0-9]* passed", closing), f"no test passed{report}"
    return closing


def pytest_command(*where: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        f"{TREE}/pyproject.toml",
        "--color=no",
        "-p",
        "no:cacheprovider",
        *where,
    ]


def run_tests(shape: str) -> str:
    """Run the tests in tests/guest/*shape*/ in one guest, and judge them."""
    return judge(run(shape, pytest_command(f"tests/guest/{shape}")))
