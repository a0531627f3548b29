"""One of the windows that are on their way through a device at a time: its memory there, and its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from zerosys import pinned
from zerosys.cuda import backend, copies, streams
from zerosys.cuda.counters import counters
from zerosys.cuda.device_pool import DeviceBlock, DevicePool
from zerosys.cuda.ends import DeviceSpan, Lent
from zerosys.cuda.fences import Fence
from zerosys.errors import CudaError, NotRegisterable
from zerosys.sizes import show_size


class Lane:
    """Takes a window in, has it computed on, and brings the result out; then it is free for another.

    *three* are the streams for the three; the device's memory and the events go with *undo*.
    """

    def __init__(self, pool: DevicePool, three: Sequence[Any], undo: ExitStack) -> None:
        self._pool = pool
        self._in, self._run, self._out = (streams.handle_of(stream) for stream in three)
        self._user_stream = three[1]
        cuda = backend.load()
        events = []
        for _ in range(6):
            event = cuda.event_create(True)
            undo.callback(cuda.event_destroy, event)
            events.append(event)
        self._stages = (events[:2], events[2:4], events[4:])
        self._blocks: list[DeviceBlock | None] = [None, None]
        undo.callback(self._free)
        self.input = DeviceSpan(0, (0,), "|u1")
        self.output: DeviceSpan | None = None
        self.window: Lent | None = None  # of the sink
        self.count = 0  # items of it
        self._sent = False

    def _free(self) -> None:
        for block in self._blocks:
            if block is not None:
                block.release()

    def _room(self, n: int, size: int) -> int:
        """Where the device has *size* bytes for this lane's input (0) or output (1)."""
        block = self._blocks[n]
        if block is None or block.size < size:
            if block is not None:
                block.release()
            self._blocks[n] = block = self._pool.acquire(max(size, 1))
        pointer: int = block.pointer
        return pointer

    # -- in, through and out -----------------------------------------------------------------

    def copy_in(self, window: Lent, strict: bool) -> int:
        """Begin to copy *window*, which goes back once that is done; the bytes that are staged."""
        cuda, (begin, end) = backend.load(), self._stages[0]
        try:
            staged = _staged(window, strict)
            self.input = DeviceSpan(self._room(0, window.nbytes), window.shape, window.typestr)
            cuda.event_record(begin, self._in)
            copies.enqueue(self.input.pointer, window.address, window.nbytes, self._in)
            cuda.event_record(end, self._in)
            cuda.stream_wait(self._run, end)
            fence = Fence(self._in)
        except BaseException:
            with suppress(CudaError):
                streams.synchronize(self._in)
            window.put_back()
            raise
        window.give(fence)
        if staged:
            counters.staged(staged)
        return staged

    def make_room(self, shape: tuple[int, ...], typestr: str) -> None:
        """Have device memory for a result of that shape."""
        span = DeviceSpan(0, shape, typestr)
        self.output = span._replace(pointer=self._room(1, span.nbytes))

    def run(self, compute: Callable[[DeviceSpan, DeviceSpan | None, Any], object]) -> None:
        """Have the user's function put its work on its stream."""
        cuda, (begin, end) = backend.load(), self._stages[1]
        cuda.event_record(begin, self._run)
        try:
            compute(self.input, self.output, self._user_stream)
            cuda.event_record(end, self._run)
        except BaseException:
            # What it put there is at the lane's memory still.
            with suppress(CudaError):
                streams.synchronize(self._run)
            raise

    def copy_out(self, window: Lent, strict: bool) -> int:
        """Begin to copy the result to *window*; the bytes that are staged."""
        self.window = window
        assert self.output is not None
        if window.nbytes != self.output.nbytes:
            raise ValueError(
                f"the sink's window has {window.nbytes} bytes, and the result {self.output.nbytes}"
            )
        cuda, (begin, end) = backend.load(), self._stages[2]
        staged = _staged(window, strict)
        cuda.stream_wait(self._out, self._stages[1][1])
        cuda.event_record(begin, self._out)
        copies.enqueue(window.address, self.output.pointer, window.nbytes, self._out)
        cuda.event_record(end, self._out)
        self._sent = True
        if staged:
            counters.staged(0)
            counters.copied_back(staged)
        return staged

    # -- the end -------------------------------------------------------------------------------

    def done(self) -> bool:
        """Whether the device has finished with this lane."""
        cuda = backend.load()
        (_, event), stream = (self._stages[2], self._out) if self._sent else (self._stages[1], self._run)
        return cuda.event_done(event) or (cuda.stream_done(stream) and cuda.event_done(event))

    def commit(self) -> int:
        """Give the filled window on; the bytes."""
        window, self.window = self.window, None
        if window is None:
            return 0
        window.commit()
        return window.nbytes

    def drop_output(self) -> None:
        """Give the window back as it is."""
        window, self.window, self._sent = self.window, None, False
        if window is not None:
            window.abort()

    def seconds(self) -> tuple[float, float, float]:
        """For how long each engine worked on it."""
        cuda = backend.load()
        sent, self._sent = self._sent, False
        stages = self._stages if sent else self._stages[:2]
        found = [cuda.event_elapsed(begin, end) for begin, end in stages]
        return found[0], found[1], found[2] if sent else 0.0


def _staged(window: Lent, strict: bool) -> int:
    """How many of the bytes of *window* the driver will stage: all, or none of what is registered."""
    if not window.nbytes or pinned.find(window.address, window.nbytes) is not None:
        return 0
    if backend.load().pointer(window.address).kind != "pageable":
        return 0
    if strict:
        raise NotRegisterable(
            backend.NOT_REGISTERED,
            "Pipeline",
            f"{show_size(window.nbytes)} at {window.address:#x} are not registered, and strict=True refuses "
            "to copy them: register() the ring or the buffers first",
        )
    return window.nbytes
