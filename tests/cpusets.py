"""A cgroup of the guest's own, for the length of a block."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOP = Path("/sys/fs/cgroup")


@contextmanager
def inside_group(**settings: str) -> Iterator[Path]:
    """Run this process in a new cgroup with *settings*, such as cpuset_mems="1"."""
    (TOP / "cgroup.subtree_control").write_text("+cpuset +memory")
    group = TOP / f"test-{os.getpid()}"
    group.mkdir()
    try:
        for name, value in settings.items():
            (group / name.replace("_", ".", 1)).write_text(value)
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield group
    finally:
        (TOP / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()
