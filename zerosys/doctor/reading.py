"""Small files of the kernel, that may be absent or forbidden."""

from __future__ import annotations

from pathlib import Path

from zerosys import sysfs


def text(file: Path) -> str | None:
    """What *file* says, stripped; None where it cannot be read."""
    try:
        return sysfs.text(str(file))
    except OSError:
        return None


def number(file: Path) -> int | None:
    """The number in *file*; None where there is none."""
    try:
        return sysfs.number(str(file))
    except OSError:
        return None


def chosen(file: Path) -> str | None:
    """The word in brackets in *file*, the one in force: "a [b] c" is "b"; None where there is none."""
    words = (text(file) or "").split()
    return next((word[1:-1] for word in words if word.startswith("[")), None)
