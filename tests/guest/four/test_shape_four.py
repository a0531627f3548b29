"""The guest is what tests/guest.py promises."""

from pathlib import Path

NODES = Path("/sys/devices/system/node")


def test_four_nodes_have_processors_and_memory():
    assert (NODES / "has_cpu").read_text() == "0-3\n"
    assert (NODES / "has_memory").read_text() == "0-3\n"


def test_the_nodes_are_two_pairs_of_neighbours():
    rows = [(NODES / f"node{node}/distance").read_text().split() for node in range(4)]
    assert rows == [
        ["10", "12", "21", "22"],
        ["12", "10", "22", "21"],
        ["21", "22", "10", "12"],
        ["22", "21", "12", "10"],
    ]


def test_the_kernel_has_weighted_interleaving():
    assert Path("/sys/kernel/mm/mempolicy/weighted_interleave/node3").exists()
