"""What shared memory is to be attached, and the sizes that say it."""

from __future__ import annotations

from zerosys.cli.c_numbers import strtoul

_FACTORS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MOST_BYTES = (1 << 63) - 1
_MOST_PROJECTS = (1 << 31) - 1


class Wish:
    """What is to be attached: set by the options before --shm or --file. Sizes are bytes."""

    def __init__(self) -> None:
        self.length = self.offset = self.project = 0
        self.mode = 0o600
        self.huge = False


def parse_size(text: str) -> int:
    """Bytes: a number as C writes it, perhaps with k, m or g. Raises ValueError."""
    value, unit = strtoul(text)
    factor = 1 if not unit else _FACTORS.get(unit.lower(), 0)
    if not _begins_with_number(text) or not factor or value * factor > _MOST_BYTES:
        raise ValueError(
            f"{text!r} is no size: write a number of bytes up to {_MOST_BYTES}, perhaps with k, m or g"
        )
    return value * factor


def parse_project(text: str) -> int:
    """The project number of a System V key, as C writes it. Raises ValueError."""
    value, rest = strtoul(text)
    if not _begins_with_number(text) or rest or value > _MOST_PROJECTS:
        raise ValueError(f"{text!r} is no project number, 0 to {_MOST_PROJECTS}")
    return value


def _begins_with_number(text: str) -> bool:
    first = text.lstrip()[:1]
    return first.isascii() and first.isdigit()
