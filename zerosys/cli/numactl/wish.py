"""What shared memory is to be attached, and the sizes that say it."""

from __future__ import annotations


class Wish:
    """What is to be attached: set by the options before --shm or --file. Sizes are bytes."""

    def __init__(self) -> None:
        self.length = self.offset = self.project = 0
        self.mode = 0o600
        self.huge = False


def parse_size(text: str) -> int:
    """Bytes: a number as C writes it, perhaps with k, m or g."""
    number, factor = text, 1
    if text[-1:].lower() in ("k", "m", "g"):
        number, factor = text[:-1], 1 << {"k": 10, "m": 20, "g": 30}[text[-1].lower()]
    return parse_number(number, text) * factor


def parse_number(number: str, text: str | None = None) -> int:
    """A number as C writes it: 10, 0xa, 012."""
    whole = number if text is None else text
    octal = len(number) > 1 and number.startswith("0") and number.isdigit()
    try:
        value = int(number, 8 if octal else 0)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"{whole!r} is no size: write a number, perhaps with k, m or g")
    return value
