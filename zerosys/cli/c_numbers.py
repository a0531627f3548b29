"""Numbers as C's library reads them, for the tools that are to take what their originals take."""

from __future__ import annotations

_MOST = (1 << 64) - 1
_LONG = 64  # so many digits are past any of C's numbers, and Python refuses to read some thousands


def strtoul(text: str) -> tuple[int, str]:
    """The number that *text* begins with, 10, 0xa or 012, and what follows; 0 where it begins with none.

    Of 64 bits: more is as much as these hold, and less than 0 wraps. See strtoul(3), base 0.
    """
    import re

    found = re.match(r"\s*([+-]?)(0[xX](?=[0-9a-fA-F])[0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", text)
    if not found:
        return 0, text
    sign, digits = found.groups()
    base = 16 if digits[1:2] in ("x", "X") else 8 if digits.startswith("0") else 10
    value = _bounded(digits[2:] if base == 16 else digits, base, _MOST)
    return (-value % (1 << 64) if sign == "-" else value), text[found.end() :]


def atoi(text: str) -> int:
    """The number that *text* begins with, 0 where it begins with none, cut to 32 bits. See atoi(3)."""
    text = text.lstrip(" \t\n\v\f\r")
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    length = next((at for at, char in enumerate(digits) if not "0" <= char <= "9"), len(digits))
    number = _bounded(digits[:length], 10, (1 << 63) - (sign != "-"))
    wrapped = (-number if sign == "-" else number) & 0xFFFFFFFF
    return wrapped - (1 << 32) if wrapped >> 31 else wrapped


def _bounded(digits: str, base: int, most: int) -> int:
    digits = digits.lstrip("0")
    return most if len(digits) > _LONG else min(int(digits or "0", base), most)
