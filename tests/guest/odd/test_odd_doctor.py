"""zerosys doctor where node 2 has no memory and node 3 no CPU, in a cpuset and a tiny cgroup."""

import json
import subprocess
import sys

from cpusets import inside_group


def findings():
    """What the command tells of this place, by what it is about."""
    done = subprocess.run(
        [sys.executable, "-m", "zerosys", "doctor", "--json"], capture_output=True, text=True
    )
    assert done.stderr == ""
    return {finding["what"]: finding for finding in json.loads(done.stdout)["findings"]}


def test_the_odd_nodes_are_named():
    found = findings()
    assert found["NUMA nodes"]["evidence"] == "nodes 0-3 (node 2: no memory, node 3: no cpus)"
    assert found["mbind"]["state"] == found["page lookup"]["state"] == "ok"
    assert found["swap"]["state"] in ("ok", "limited")


def test_a_cpuset_and_a_tiny_cgroup_are_told_with_their_numbers():
    with inside_group(cpuset_mems="1", memory_max=str(100 << 20)):
        found = findings()
    mine = found["what this process may use"]
    assert mine["state"] == "limited" and mine["evidence"].endswith("memory on nodes 1 of 0-1,3")
    assert found["mbind"]["state"] == "ok"  # tried on the node that is allowed
    limit = found["cgroup memory limit"]
    assert "of 100 MiB left" in limit["evidence"] and "memory.max" in limit["evidence"]
