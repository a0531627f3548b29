"""Text for a terminal: columns, and names that cannot steer it."""

from __future__ import annotations

from collections.abc import Sequence


def plain(text: str) -> str:
    """*text*, with what a terminal would obey or cannot show, and bytes that are no text, as escapes."""
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # how Python keeps a byte
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> str:
    """*rows* under *head* in columns; those named in *right* (by their heads' words) end alike."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    ends = right.split()
    return "\n".join(
        "  ".join(
            cell.rjust(width) if name in ends else cell.ljust(width)
            for cell, width, name in zip(line, widths, head, strict=True)
        ).rstrip()
        for line in lines
    )
