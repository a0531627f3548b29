"""Doubles of NVIDIA's two libraries, for what cannot run without a GPU: compiled, and found first by a child.

They answer as cuda.h and nvml.h say; tests/test_locality_gpu.py holds the same claims against the real ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LIBRARIES = {"nvml": "libnvidia-ml.so.1", "cuda": "libcuda.so.1"}


def build(folder: Path, *names: str) -> Path:
    """Compile the doubles called *names* into *folder*, for LD_LIBRARY_PATH."""
    for name in names:
        command = [
            *os.environ.get("CC", "cc").split(),
            "-D_GNU_SOURCE",
            "-shared",
            "-fPIC",
            "-Wall",
            "-Wextra",
        ]
        subprocess.run([*command, HERE / f"{name}.c", "-o", folder / LIBRARIES[name]], check=True)
    return folder


def python(code: str, folder: Path, gpus: str, **environment: str) -> subprocess.CompletedProcess:
    """Run *code* where the doubles in *folder* are the machine's libraries, with these GPUs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, cwd=HERE.parent.parent,
        env={**kept, "LD_LIBRARY_PATH": str(folder), "DOUBLE_GPUS": gpus, **environment},
    )  # fmt: skip
