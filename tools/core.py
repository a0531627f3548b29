"""Build the C of zerosys for other machines and C libraries, and run it there by an emulator.

python tools/core.py        for each Target of tools/wheel.py; needs ziglang, and qemu-user for aarch64
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from wheel import CROSS, NATIVE, TREE, WORK, Target, compiler

SOURCE = TREE / "tests/core/core.c"


def runner(target: Target) -> list[str] | None:
    """The words before a program of *target* that run it here; None where nothing can."""
    machine = target.zig.split("-")[0]
    if machine == platform.machine():
        return []
    found = shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")
    return [found] if found else None


def build(target: Target) -> Path:
    """The test program for *target*, linked statically where its C library is not this machine's."""
    program = WORK / f"core-{target.zig}"
    program.parent.mkdir(parents=True, exist_ok=True)
    # glibc is not linked statically by zig: its programs need the C library of their machine.
    static = ["-static"] if "musl" in target.zig else []
    subprocess.run(
        [*compiler(target).split(), "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-pthread", *static,
         f"-I{TREE / 'zerosys'}", SOURCE, "-o", program],
        check=True,
    )  # fmt: skip
    return program


def main() -> None:
    wrong = 0
    for target in (NATIVE, *CROSS):
        program = build(target)
        words = runner(target)
        if words is None or (words and "gnu" in target.zig):
            lacks = "emulator" if words is None else "C library for it"
            print(f"{target.zig}: built; not run, no {lacks} here")
            continue
        done = subprocess.run([*words, program], capture_output=True, text=True, timeout=300)
        wrong |= done.returncode != 0
        print(f"{target.zig}: {(done.stdout + done.stderr).strip()}")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
