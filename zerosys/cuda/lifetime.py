"""When the driver may still be asked to undo what it did: not at exit, not in a fork, not after a reset.

What may not be undone is left to the driver, which forgets it with the context or the process; a line
in the log ("zerosys.cuda") says so.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable

from zerosys.cuda import backend
from zerosys.cuda.backend import Context
from zerosys.errors import CudaError

log = logging.getLogger("zerosys.cuda")

_exiting = False


def refuse_fork() -> None:
    """Raise CudaError in the forked child of a process that had loaded the driver."""
    user = backend.process()
    if user is not None and user != os.getpid():
        raise CudaError(
            backend.NOT_INITIALIZED,
            "cuInit",
            f"this process was forked from {user}, which had initialised CUDA, and cannot use it: start "
            "it by spawn or forkserver (multiprocessing.get_context('spawn'))",
        )


def ending() -> bool:
    """Whether the interpreter is."""
    return _exiting or sys.is_finalizing()


def usable() -> bool:
    """Whether this process may call the driver at all: it began to, and is not ending."""
    return backend.process() == os.getpid() and not ending()


def why_left(context: Context, pid: int) -> str | None:
    """Why what was done in *context* by process *pid* cannot be undone now; None where it can."""
    if _exiting or sys.is_finalizing():
        return "the interpreter is ending"
    if pid != os.getpid():
        return f"process {pid} did it, and this is its forked child"
    try:
        return None if backend.load().alive(context) else "its CUDA context is gone"
    except CudaError as refusal:
        return f"its CUDA context cannot be asked ({refusal})"


def undo(what: str, context: Context, pid: int, call: Callable[[], None]) -> CudaError | None:
    """Do *call* in *context* if it can still be done; else leave it and log. The driver's refusal, if any."""
    why = why_left(context, pid)
    if why:
        # Nothing is lost where the whole process ends, nor in a child: the parent has it still.
        level = logging.WARNING if pid == os.getpid() and not _exiting else logging.DEBUG
        log.log(level, "%s is left to the driver: %s", what, why)
        return None
    try:
        with backend.current(backend.load(), context):
            call()
    except CudaError as refusal:
        log.warning("%s: %s", what, refusal)
        return refusal
    return None


def _at_exit() -> None:
    global _exiting
    _exiting = True


atexit.register(_at_exit)
