"""Past one machine: regions under engines that other people keep, between hosts made of namespaces."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from hosts import hosts, refusal
from needs import need

TREE = Path(__file__).resolve().parent.parent


def test_mpi_carries_from_region_to_region_between_hosts(tmp_path):
    need("netns", refusal())
    with hosts(2, tmp_path) as ((first, second), on):
        mpiexec = Path(sysconfig.get_path("scripts"), "mpiexec")
        command = [
            mpiexec,
            "-launcher",
            "rsh",
            "-launcher-exec",
            on,
            "-iface",
            "net0",
            "-hosts",
            f"{first},{second}",
        ]
        work = [sys.executable, TREE / "examples/regions_over_mpi.py"]
        done = subprocess.run(
            [on, first, *map(str, [*command, "-n", "2", *work])],
            capture_output=True, text=True, timeout=100, env=os.environ | {"PYTHONPATH": str(TREE)},
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "8388608 bytes arrived in its own region" in done.stdout
