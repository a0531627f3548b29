"""Streams of any library as the number that the driver knows, and the wait for what was put on one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from zerosys.cuda import backend
from zerosys.cuda.backend import Context
from zerosys.errors import CudaError, NotReady

_SPIN = 200e-6  # seconds for which asking again at once is cheaper than sleeping
_SHORTEST, _LONGEST = 20e-6, 1e-3
_SHARE = 50  # a nap is this part of what was waited so far: that much later is noticed, at most


def handle_of(stream: Any) -> int:
    """The driver's handle of *stream*; None is the default stream, 0.

    *stream* is an int, or an object with ``__cuda_stream__`` (cuda.core and others), ``cuda_stream``
    (torch), ``ptr`` (CuPy) or ``handle`` (numba).
    """
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for word in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, word, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    if isinstance(stream, (bool, float)) or not hasattr(stream, "__int__"):
        raise TypeError(
            f"stream must be an int, or have __cuda_stream__, cuda_stream, ptr or handle, not {stream!r}"
        )
    return int(stream)  # an int, or cuda-bindings' CUstream


class OwnStream:
    """A stream of ours, for torch.cuda.ExternalStream(int(stream)), CuPy's, and ``__cuda_stream__``."""

    def __init__(self, handle: int) -> None:
        self.ptr = self.cuda_stream = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.ptr)

    def __int__(self) -> int:
        return self.ptr

    def __index__(self) -> int:
        return self.ptr


def own_stream(undo: ExitStack) -> OwnStream:
    """A new stream of the current context, which goes with *undo*."""
    cuda = backend.load()
    made = OwnStream(cuda.stream_create())
    undo.callback(cuda.stream_destroy, made.ptr)
    return made


def synchronize(stream: int, timeout: float | None = None, context: Context | None = None) -> None:
    """Wait until everything put on *stream* so far is done. Raises NotReady after *timeout* seconds.

    *context* is the one of a default stream for a thread that has none current. Ctrl-C is answered.
    Raises CudaError for what failed on the device meanwhile.
    """
    cuda = backend.load()
    try:
        if not cuda.stream_done(stream):
            wait_for(lambda: cuda.stream_done(stream), timeout, "the stream")
    except CudaError as refusal:
        if refusal.code != backend.INVALID_CONTEXT or context is None:
            raise
        with backend.current(cuda, context):
            wait_for(lambda: cuda.stream_done(stream), timeout, "the stream")


def wait_for(done: Callable[[], bool], timeout: float | None, what: str) -> None:
    """Ask *done* until it says so: at once for a moment, then with naps that grow to a millisecond."""
    begin = time.monotonic()
    while not done():
        waited = time.monotonic() - begin
        if timeout is not None and waited >= timeout:
            raise NotReady(f"{what} is not done after {timeout} s")
        if waited > _SPIN:
            time.sleep(min(max(waited / _SHARE, _SHORTEST), _LONGEST))
