"""The C under the extensions, alone: what tools/core.py runs on other machines, run on this one."""

import os
import subprocess
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent


def test_the_c_moves_a_file_and_streams_through_a_ring_without_python(tmp_path):
    program = tmp_path / "core"
    compiler = os.environ.get("CC", "cc").split()
    options = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    source = TREE / "tests/core/core.c"
    subprocess.run([*compiler, *options, f"-I{TREE / 'zerosys'}", source, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
