"""Where samples are shown: text below text, or a terminal that is drawn anew and takes keys."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Self

# The other screen, so that what was there comes back; no cursor.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Paper:
    """Text below text, for files, pipes and terminals that are to keep it."""

    colours = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, text: str) -> None:
        print(text, flush=True)

    def wait(self, seconds: float) -> bool:
        """Wait; False where it was told to end."""
        time.sleep(seconds)
        return True


class Terminal(Paper):
    """The whole of a terminal; keys are taken from stdin where that is one, too."""

    def __init__(self) -> None:
        self.colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._before: list[Any] | None = None
        self._handler: Any = signal.SIG_DFL

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        # So that the terminal is left in order.
        self._handler = signal.signal(signal.SIGTERM, _ended)
        sys.stdout.write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, self._handler)
        if self._before:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def show(self, text: str) -> None:
        """Draw *text*, as many lines of it as fit."""
        lines = text.split("\n")[: os.get_terminal_size(sys.stdout.fileno()).lines - 1]
        sys.stdout.write(_HOME + "".join(f"{line}{_CLEAR_LINE}\r\n" for line in lines) + _CLEAR_BELOW)
        sys.stdout.flush()

    def wait(self, seconds: float) -> bool:
        """Wait, or until a key; False for q and for a terminal that is gone."""
        if not self._before:
            return super().wait(seconds)
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        if not ready:
            return True
        key = os.read(sys.stdin.fileno(), 16)
        return bool(key) and not key.lower().startswith(b"q")


def _ended(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
