"""The guest is what tests/guest.py promises."""

from pathlib import Path

NODES = Path("/sys/devices/system/node")


def test_the_last_node_has_memory_and_no_processor():
    assert (NODES / "has_cpu").read_text() == "0-1\n"
    assert (NODES / "has_memory").read_text() == "0-2\n"


def test_there_is_swap():
    assert len(Path("/proc/swaps").read_text().splitlines()) == 2
