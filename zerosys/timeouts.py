"""How long to wait, as people say it: seconds, any number from 0 on."""

from __future__ import annotations

import math


def waiting(timeout: float) -> float:
    """*timeout* if it is seconds that can be waited. Raises TypeError or ValueError for anything else."""
    if isinstance(timeout, bool) or not hasattr(timeout, "__float__"):
        raise TypeError(f"timeout must be seconds, a number, not {timeout!r}")
    try:
        seconds = float(timeout)
    except OverflowError:
        seconds = math.inf if timeout > 0 else -1
    if not seconds >= 0:  # nan, too
        raise ValueError(f"timeout must be 0 seconds or more, not {seconds}")
    return seconds
