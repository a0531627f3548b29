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
        self._screen, self._keys = sys.stdout.fileno(), _keyboard()
        self._before: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._shown = ""

    def __enter__(self) -> Self:
        # So that the terminal is left in order.
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, _ended)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stop)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _take(self) -> None:
        if self._keys is not None:
            self._before = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        self._write(_ENTER)

    def _leave(self) -> None:
        self._write(_LEAVE)
        if self._keys is not None and self._before:
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: the terminal is the shell's until we are continued."""
        self._leave()
        signal.raise_signal(signal.SIGSTOP)
        self._take()
        self.show(self._shown)

    def _write(self, text: str) -> None:
        # Not by sys.stdout: a signal's handler may come while it writes, and must not enter it again.
        data = text.encode(sys.stdout.encoding, "backslashreplace")
        while data:
            data = data[os.write(self._screen, data) :]

    def show(self, text: str) -> None:
        """Draw *text*, as many lines of it as fit."""
        self._shown = text
        lines = text.split("\n")[: os.get_terminal_size(self._screen).lines - 1]
        self._write(_HOME + "".join(f"{line}{_CLEAR_LINE}\r\n" for line in lines) + _CLEAR_BELOW)

    def wait(self, seconds: float) -> bool:
        """Wait, or until a key; False for q and for a terminal that is gone."""
        if self._keys is None:
            return super().wait(seconds)
        ready, _, _ = select.select([self._keys], [], [], seconds)
        if not ready:
            return True
        key = os.read(self._keys, 16)
        return bool(key) and not key.lower().startswith(b"q")


def _keyboard() -> int | None:
    """Standard input, if it is a terminal."""
    return sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None


def _ended(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
