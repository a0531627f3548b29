"""What arguments of several commands are read by: argparse's types, which say in words what is wrong."""

from __future__ import annotations

import argparse
import os

_MOST = (1 << 63) - 1
_DIGITS = len(str(_MOST))  # Python refuses to read some thousands of them


def count(text: str) -> int:
    """A number of things, 0 or more."""
    found = _number(text)
    if found is None or found > _MOST:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no count, 0 to {_MOST}")
    return found


def process(text: str) -> int:
    """The number of a process; "self" is that of this one."""
    if text == "self":
        return os.getpid()
    found = _number(text)
    if not found or found >= 1 << 31:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no process's number, nor self")
    return found


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
