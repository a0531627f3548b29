"""The guest is what tests/guest.py promises."""

from pathlib import Path

NODES = Path("/sys/devices/system/node")


def test_node_2_has_processors_and_no_memory_and_node_3_the_other_way_round():
    assert (NODES / "has_cpu").read_text() == "0-2\n"
    assert (NODES / "has_memory").read_text() == "0-1,3\n"


def test_there_is_swap():
    assert len(Path("/proc/swaps").read_text().splitlines()) == 2
