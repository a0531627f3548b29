"""The main job on a CPU whose node has no memory: the nearest node that has some is taken."""

import json
import os
import subprocess
import sys

import pytest

from zerosys import topology


@pytest.mark.timeout(300)
def test_the_demo_started_on_a_node_without_memory_takes_one_with():
    (lacking,) = topology().nodes_with_cpus - topology().nodes_with_memory
    cpus, own = topology().nodes[lacking].online_cpus, os.sched_getaffinity(0)
    command = [sys.executable, "-m", "zerosys", "demo", "--json", "--rounds", "1", "--size", "1MiB"]
    os.sched_setaffinity(0, cpus)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    finally:
        os.sched_setaffinity(0, own)
    assert done.returncode == 0, done.stdout + done.stderr
    region = json.loads(done.stdout)["region"]
    assert region["node"] in topology().nodes_with_memory
    assert region["proof"]["pages_by_node"] == {str(region["node"]): 256} and region["proof"]["verified"]
