"""How far a pump is, on a terminal: rate, average, time left, and the path that the bytes take."""

from __future__ import annotations

import os
import time
from typing import TextIO

from zerosys.pumps.result import PumpResult

_WIDEST_BAR = 30


class Progress:
    """One line on *out*, a terminal, that is written over about ten times a second.

    *total* bytes are expected; with None there is neither a bar nor an end in sight.
    """

    def __init__(self, out: TextIO, total: int | None) -> None:
        self._out, self._total = out, total
        self._before = (0, time.monotonic())
        self._shown = False

    def show(self, result: PumpResult) -> None:
        """Draw the line for *result*."""
        now = time.monotonic()
        count, at = self._before
        rate = (result.bytes - count) / max(now - at, 1e-6)
        self._before = (result.bytes, now)
        self._draw(line(result, rate, self._total, self._width()))

    def end(self, result: PumpResult) -> None:
        """Draw it for the last time, with the average alone, if it was drawn at all or took a second."""
        if self._shown or result.seconds >= 1:
            average = result.bytes / max(result.seconds, 1e-6)
            self._draw(line(result, average, self._total, self._width(), over=True))
        self.leave()

    def leave(self) -> None:
        """Go on below the line."""
        if self._shown:
            self._out.write("\n")
            self._out.flush()
            self._shown = False

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or 80
        except OSError:
            return 80

    def _draw(self, text: str) -> None:
        self._shown = True
        self._out.write(f"\r{text}\x1b[K")
        self._out.flush()


def line(result: PumpResult, rate: float, total: int | None, width: int, *, over: bool = False) -> str:
    """The text for *result* in *width* columns; what does not fit is left out from its end."""
    average = result.bytes / max(result.seconds, 1e-6)
    parts = [amount(result.bytes), clock(result.seconds), f"{amount(rate)}/s"]
    if not over:
        parts.append(f"avg {amount(average)}/s")
    if total:
        share = min(result.bytes / total, 1.0)
        parts.append(f"{share:4.0%}")
        if not over and average > 0:
            parts.append(f"ETA {clock((total - result.bytes) / average)}")
    parts.append(result.path)
    text = "  ".join(parts)
    room = width - len(text) - 5
    if total and not over and room >= 8:
        text += "  " + bar(share, min(room, _WIDEST_BAR))
    return text[: max(width - 1, 0)]


def bar(share: float, width: int) -> str:
    """*share* of *width* columns, between brackets."""
    inside = width - 2
    done = int(share * inside)
    return f"[{'=' * done}{'>' if done < inside else ''}{' ' * (inside - done - 1)}]"


def amount(count: float) -> str:
    """*count* bytes in three or four digits."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1000 or unit == "TiB":
            break
        count /= 1024
    return (
        f"{count:.0f} {unit}"
        if unit == "B"
        else f"{count:.2f} {unit}"
        if count < 100
        else f"{count:.0f} {unit}"
    )


def clock(seconds: float) -> str:
    """*seconds* as hours, minutes and seconds; no hours where there are none."""
    whole = int(min(max(seconds, 0), 359_999))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
