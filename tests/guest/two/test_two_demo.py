"""The main job with a choice of nodes: the region is where it was asked to be."""

import json
import subprocess
import sys

import pytest


@pytest.mark.timeout(300)
def test_the_demos_memory_lies_on_the_node_that_was_chosen():
    command = ["--json", "--rounds", "1", "--size", "4MiB", "--node", "1", "--pages", "2M"]
    done = subprocess.run(
        [sys.executable, "-m", "zerosys", "demo", *command], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    proof = json.loads(done.stdout)["region"]["proof"]
    assert proof["pages_by_node"] == {"1": 2}
    assert proof["page_size"] == 2 << 20 and proof["verified"]
