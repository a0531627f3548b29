"""What works here, and what to do about what does not: each answer from a real look or a real call."""

from __future__ import annotations

import os
from pathlib import Path

from zerosys.doctor import calls, gpu, memory, places, placing, system
from zerosys.doctor.finding import STATES, Finding, State, exit_status

__all__ = ["STATES", "Finding", "State", "check", "exit_status"]


def check(*, root: str | os.PathLike[str] = "/") -> list[Finding]:
    """Look at this machine and this process; return a Finding for each thing.

    Each kernel call is made once on something small, and nothing is left behind. *root* stands for
    ``/`` where files of the kernel are read (a recorded tree, say); calls and limits are always those
    of this process. What cannot be looked at is a finding too: nothing is raised for it.
    """
    base = Path(root)
    found = calls.check() + placing.check()
    for look in (places.check, memory.check, system.check):
        found += look(base)
    return found + gpu.check()
