"""Becoming the command: as if nothing of Python had been there before it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def environment() -> list[bytes]:
    """The environment that this process was started with: Python may have added to its own since."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return [entry for entry in file.read().split(b"\0") if entry]
    except OSError:  # no procfs: a bare chroot
        return [name + b"=" + value for name, value in os.environb.items()]


def become(command: Sequence[str]) -> NoReturn:
    """Replace this process by *command*; raises OSError where that cannot be done."""
    from zerosys._exec import execvpe

    if sys.stdout:  # None where descriptor 1 is closed, which is the command's business
        sys.stdout.flush()
    words = [os.fsencode(word) for word in command]
    execvpe(words[0], words, environment())
