"""The moment at which a device has finished with some memory: what ``release(after=...)`` waits for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from zerosys.cuda import backend, lifetime, streams
from zerosys.cuda.backend import Context
from zerosys.cuda.devices import context_for
from zerosys.window import question

_DEFAULT = 1  # the driver's other name of the default stream, which 0 may not be called there
# Events are made once and used again: making one takes the driver longer than recording it.
_spare: dict[Context, list[int]] = {}


class Fence:
    """Everything that a stream was given until now, or an event of any library that was recorded.

    Made of a stream (an int, ``__cuda_stream__``, torch, CuPy, numba) it records an event there;
    an event (torch.cuda.Event, cupy.cuda.Event, numba's, cuda.core's) is asked itself, and kept.
    """

    __slots__ = ("_ask", "_context", "_event", "_pid")

    def __init__(self, after: Any) -> None:
        self._event, self._pid = 0, os.getpid()
        self._ask: Callable[[], bool] | None = asks(after)
        if self._ask is not None:
            return
        handle = streams.handle_of(after)
        cuda = backend.load()
        self._context = cuda.context_of(handle) or context_for(None)
        with backend.current(cuda, self._context):
            event = _recorded(self._context, handle)
        self._event, self._ask = event, lambda: cuda.event_done(event)

    @property
    def context(self) -> Context | None:
        """That of the event recorded here; None for another library's."""
        return self._context if self._event else None

    def done(self) -> bool:
        """Whether the device has passed it; never waits. Raises CudaError for what failed there."""
        if self._ask is None:
            return True
        if not self._ask():
            return False
        self._finish()
        return True

    query = done  # as torch's events are asked: a ring's window waits for a Fence as for these

    def wait(self, timeout: float | None = None) -> None:
        """Wait until done(); Ctrl-C is answered. Raises NotReady after *timeout* seconds."""
        if not self.done():
            streams.wait_for(self.done, timeout, "the device")

    def _finish(self) -> None:
        """The event is free for the next fence in its context."""
        self._ask = None
        event, self._event = self._event, 0
        if event and self._pid == os.getpid():
            _spare.setdefault(self._context, []).append(event)

    def __del__(self) -> None:
        event = getattr(self, "_event", 0)
        if event:
            self._event = 0
            cuda = backend.load
            lifetime.undo("an event", self._context, self._pid, lambda: cuda().event_destroy(event))


def _recorded(context: Context, stream: int) -> int:
    """An event of *context*, the current one, at the present end of *stream*."""
    cuda, spare = backend.load(), _spare.setdefault(context, [])
    event = spare.pop() if spare else cuda.event_create()
    try:
        cuda.event_record(event, stream)
    except BaseException:  # it is no stream, say
        spare.append(event)
        raise
    return event


def follow(stream: int, producer: int | None, context: Context) -> None:
    """Have what is put on *stream* from now on come after all that *producer* was given.

    *producer* is the ``stream`` of somebody's ``__cuda_array_interface__``: None is no stream to wait
    for. *context* is the one of a default stream.
    """
    if producer is None or (producer or _DEFAULT) == (stream or _DEFAULT):
        return
    cuda = backend.load()
    owner = cuda.context_of(producer) or context
    with backend.current(cuda, owner):
        event = _recorded(owner, producer or _DEFAULT)
        try:
            cuda.stream_wait(stream, event)
        finally:
            _spare[owner].append(event)  # who waits for it waits for what was recorded until now


def asks(event: Any) -> Callable[[], bool] | None:
    """How *event* says that it has happened, for an event of torch, CuPy, numba or cuda.core; else None."""
    if event is None or isinstance(event, int) or _is_stream(event):
        return None
    return question(event)


def _is_stream(thing: Any) -> bool:
    """torch's streams can be queried too, and CuPy's say "done": only streams have one of these."""
    return any(
        hasattr(thing, word) for word in ("__cuda_stream__", "cuda_stream", "wait_event", "auto_synchronize")
    )
