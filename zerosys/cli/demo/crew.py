"""Three processes that are asked and answer, and of which none can keep the others waiting for ever."""

from __future__ import annotations

import multiprocessing as mp
import signal
import time
import traceback
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

# Named, since the default differs by platform and Python version. A spawned child is a
# process of its own, as the parties of the demo would be.
CONTEXT = mp.get_context("spawn")


class CrewError(OSError):
    """One of the processes failed or died; the text says which and how."""


def _words(failure: Exception) -> str:
    """What a person needs of it: the text of a refusal; of anything else its kind and place too."""
    if isinstance(failure, (OSError, ValueError)) and str(failure):
        return str(failure)
    last = traceback.extract_tb(failure.__traceback__)[-1]
    return f"{type(failure).__name__}: {failure} ({last.filename}:{last.lineno})"


def _serve(asked: Connection, kind: type, arguments: tuple[Any, ...]) -> None:
    # Ctrl-C goes to the whole foreground group: the parent answers it, and ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        worker = kind(*arguments)
        while True:
            name, words = asked.recv()
            try:
                answer = (True, getattr(worker, name)(**words))
            except Exception as failure:
                answer = (False, _words(failure))
            asked.send(answer)
    except (EOFError, ConnectionError):
        pass  # the parent is gone, and so is the demo


class Crew:
    """Owns a process for each of *roles*, name to (class, arguments), and ends them on leaving."""

    def __init__(self, roles: dict[str, tuple[type, tuple[Any, ...]]], timeout: float) -> None:
        self.timeout = timeout
        self._asked: dict[str, Connection] = {}
        self._processes: dict[str, Any] = {}
        # A child inherits the mask: Ctrl-C cannot hit it before it has learnt to ignore that.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            try:
                for name, (kind, arguments) in roles.items():
                    self._start(name, kind, arguments)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, former)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, kind: type, arguments: tuple[Any, ...]) -> None:
        self._asked[name], theirs = CONTEXT.Pipe()
        with theirs:
            process = CONTEXT.Process(target=_serve, args=(theirs, kind, arguments), name=name, daemon=True)
            process.start()
            self._processes[name] = process

    def pids(self) -> dict[str, int]:
        """The process id of each role."""
        return {name: process.pid for name, process in self._processes.items()}

    def ask(self, **calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        """Have each role named do its (method, words) at the same time; return the answers.

        They begin in the order given. Raises CrewError when one fails, dies, or takes
        longer than the timeout.
        """
        for name, call in calls.items():
            try:
                self._asked[name].send(call)
            except OSError:
                raise self._dead(name) from None
        answers: dict[str, Any] = {}
        deadline = time.monotonic() + self.timeout
        while len(answers) < len(calls):
            waiting = {self._asked[name]: name for name in calls if name not in answers}
            deaths = {process.sentinel: name for name, process in self._processes.items()}
            ready = wait([*waiting, *deaths], timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                raise CrewError(
                    f"the {' and the '.join(waiting.values())} did nothing for {self.timeout:g} s"
                )
            answers |= {waiting[end]: self._answer(waiting[end]) for end in ready if end in waiting}
            for end in ready:
                if end in deaths:
                    raise self._dead(deaths[end])
        return answers

    def _answer(self, name: str) -> Any:
        try:
            fine, answer = self._asked[name].recv()
        except (EOFError, OSError):
            raise self._dead(name) from None
        if not fine:
            raise CrewError(f"the {name} failed: {answer}")
        return answer

    def _dead(self, name: str) -> CrewError:
        process = self._processes[name]
        process.join(5)
        code = process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
        return CrewError(f"the {name} died ({how})")

    def close(self) -> None:
        """End every process, at once if it does not go by itself."""
        for end in self._asked.values():
            end.close()
        for process in self._processes.values():
            process.join(0.5)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._asked, self._processes = {}, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
