"""Sizes as people write them: 4096, "64MiB", "64M", "1.5 GB"."""

from __future__ import annotations

import re
from operator import index
from typing import SupportsIndex

_DECIMAL = {"k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_BINARY = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TEXT = re.compile(r"\s*([0-9]+)(?:\.([0-9]+))?\s*(?:([kmgt])(ib?|b)?|b)?\s*", re.IGNORECASE)

LARGEST = 1 << 62


def parse_size(size: SupportsIndex | str) -> int:
    """The bytes that *size* names: an int, or text such as "64MiB", "1GiB", "2 GB", "4096".

    KiB, MiB, GiB, TiB and plain K, M, G, T (as numactl reads them) are powers of 1024, kB, MB,
    GB, TB of 1000. Raises ValueError for less than 1 byte, parts of bytes, other text.
    """
    if not isinstance(size, str):
        if isinstance(size, bool) or not isinstance(size, SupportsIndex):
            raise TypeError(f"size must be an int, or text such as '64MiB', not {size!r}")
        count = index(size)
    else:
        found = _TEXT.fullmatch(size)
        if not found:
            raise ValueError(f"size must be bytes, or text such as '64MiB', not {size!r}")
        unit = (found[3] or "").lower()
        table = _DECIMAL if (found[4] or "").lower() == "b" else _BINARY
        factor = table[unit] if unit else 1
        fraction = found[2] or ""
        count, rest = divmod(int(found[1] + fraction) * factor, 10 ** len(fraction))
        if rest:
            raise ValueError(f"size must be whole bytes, which {size!r} is not")
    if not 1 <= count <= LARGEST:
        raise ValueError(f"size must be 1 to {LARGEST} bytes, not {count}")
    return count


def show_size(count: int) -> str:
    """*count* bytes in the largest binary unit that loses nothing: 67108864 is "64 MiB"."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        factor = _BINARY[unit[0].lower()]
        if count and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} bytes"


def rough_size(count: int) -> str:
    """*count* bytes in the unit that people would say it in, to three digits or four: "21.23 GiB"."""
    amount, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if abs(amount) < 1024 or unit == "EiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.4g} {unit}"
