"""The guest is what tests/guest.py promises."""

from pathlib import Path

NODES = Path("/sys/devices/system/node")


def test_two_nodes_have_processors_and_memory():
    assert (NODES / "has_cpu").read_text() == "0-1\n"
    assert (NODES / "has_memory").read_text() == "0-1\n"


def test_each_node_has_huge_pages():
    for node in (0, 1):
        assert (NODES / f"node{node}/hugepages/hugepages-2048kB/free_hugepages").read_text() == "16\n"
