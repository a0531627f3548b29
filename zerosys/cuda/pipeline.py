"""Copy in, compute, copy out: three engines that work at the same time, each on another window."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from zerosys.cuda import backend, ends, streams
from zerosys.cuda.device_pool import DevicePool
from zerosys.cuda.devices import Device, context_for
from zerosys.cuda.ends import DeviceSpan, Items, Lent
from zerosys.cuda.lane import Lane
from zerosys.errors import CudaError

Compute = Callable[[DeviceSpan, "DeviceSpan | None", Any], object]


@dataclass(frozen=True)
class PipelineStats:
    """What run() did: windows, bytes each way, seconds, and for how many of these each engine was busy.

    ``staged`` bytes were copied from or to memory that is not registered: such copies do not overlap.
    """

    windows: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    staged: int = 0
    seconds: float = 0.0
    copy_in: float = 0.0
    compute: float = 0.0
    copy_out: float = 0.0

    @property
    def busy(self) -> tuple[float, float, float]:
        """The share of the time in which copy-in, compute and copy-out were busy, 0 to 1."""
        whole = self.seconds or 1.0
        return self.copy_in / whole, self.compute / whole, self.copy_out / whole

    @property
    def overlap(self) -> float:
        """How many engines were busy on average; 1 and less is what one after the other reaches."""
        return sum(self.busy)


class Pipeline:
    """Windows from *source* through a device's *compute* into *sink*, up to *depth* of them at a time.

    *source* is a ring's reader (whatever has ``peek(n, timeout)`` and ``try_peek(n)``), of which windows of
    *items* are taken, or an iterable of buffers: slots, blocks of a HostPool, arrays. *sink* is a ring's
    writer (``claim(n, timeout)``), an iterable of buffers to be filled in turn, or None. A sink's window
    gets *out_items* items: a number, what a function makes of the input's number, None: as many as the input.

    ``compute(input, output, stream)`` puts its work on *stream* and returns; input and output are device
    memory (``__cuda_array_interface__``, ``pointer``, ``nbytes``) that is another window's afterwards;
    output is None without a sink. *streams* are three streams of any library, for copy-in, compute and
    copy-out (compute() gets the second as it is); None makes them. *device* is a number; None is that of
    the thread's current context.

    A source's window is released (``release(after=)``) as soon as it is copied, and never before; a sink's
    is committed once it is filled. A sink that is full holds the source up. *timeout* seconds are waited for
    either. Memory that is not registered is copied too, counted as staged, and refused with *strict*.
    """

    def __init__(
        self,
        source: Any,
        compute: Compute,
        sink: Any = None,
        depth: int = 3,
        *,
        items: int | None = None,
        out_items: Items = None,
        streams: Sequence[Any] | None = None,
        device: Device | None = None,
        timeout: float | None = None,
        strict: bool = False,
    ) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        if streams is not None and len(streams) != 3:
            raise ValueError(f"streams must be three, for copy-in, compute and copy-out, not {len(streams)}")
        self._source = ends.Source(source, items, timeout)
        self._sink = None if sink is None else ends.Sink(sink, out_items, timeout)
        self._compute, self._depth, self._strict = compute, depth, strict
        self._streams, self._context = streams, context_for(device)
        self._computed: deque[Lane] = deque()  # waiting for a window of the sink
        self._sending: deque[Lane] = deque()  # being copied out
        self._free: list[Lane] = []
        self._sums = [0, 0, 0, 0]  # windows, bytes in, bytes out, staged
        self._busy = [0.0, 0.0, 0.0]

    def run(self, count: int | None = None) -> PipelineStats:
        """Carry *count* windows (None: until the source ends), and wait for the last.

        What *compute* raises is raised here, once what was computed before is delivered and everything that
        was lent is given back; so are errors of source and sink, CudaError and KeyboardInterrupt, after which
        what is being copied out is delivered and the rest is not. It can be called again.
        """
        self._sums, self._busy = [0, 0, 0, 0], [0.0, 0.0, 0.0]
        with ExitStack() as undo:
            undo.enter_context(backend.current(backend.load(), self._context))
            pool = undo.enter_context(DevicePool(self._context.device))
            three = self._three(undo)
            self._free = [Lane(pool, three, undo) for _ in range(self._depth)]
            begin = time.perf_counter()
            try:
                self._carry(count)
            except BaseException:
                self._abandon(three)
                raise
            seconds = time.perf_counter() - begin
        windows, bytes_in, bytes_out, staged = self._sums
        return PipelineStats(windows, bytes_in, bytes_out, staged, seconds, *self._busy)

    def _three(self, undo: ExitStack) -> Sequence[Any]:
        """The streams: the caller's, or three that go at the end."""
        if self._streams is not None:
            return self._streams
        return [streams.own_stream(undo) for _ in range(3)]

    # -- the work ------------------------------------------------------------------------------

    def _carry(self, count: int | None) -> None:
        while count is None or self._sums[0] < count:
            lane = self._idle_lane()
            window = self._source.take(self._settle)
            if window is None:
                break
            self._begin(lane, window)
            self._sums[0] += 1
            self._sums[1] += window.nbytes
            self._deliver(wait=False)
        self._settle()

    def _begin(self, lane: Lane, window: Lent) -> None:
        """Put *window* and the user's work on their streams."""
        try:
            try:
                if self._sink is not None:
                    self._sink.room_for(lane, window.shape)
            except BaseException:
                window.put_back()
                raise
            self._sums[3] += lane.copy_in(window, self._strict)
            lane.run(self._compute)
        except BaseException as error:
            lane.drop_output()
            self._free.append(lane)
            if isinstance(error, Exception):
                self._settle()
            raise
        (self._computed if self._sink else self._sending).append(lane)

    def _idle_lane(self) -> Lane:
        while not self._free:
            self._deliver(wait=True, until_free=True)
        return self._free.pop(0)

    def _settle(self) -> None:
        """Deliver everything that was begun."""
        self._deliver(wait=True)

    def _deliver(self, *, wait: bool, until_free: bool = False) -> None:
        """Commit what is copied out, in order, and begin the next; with *wait*, until all is, or one."""
        while self._computed or self._sending:
            while self._computed and (not self._sending or (self._sink and self._sink.several)):
                self._send()
            lane = self._sending[0]
            if not lane.done():
                if not wait:
                    return
                streams.wait_for(lane.done, None, "the pipeline")
            self._finish(lane)
            if until_free:
                if self._computed and not self._sending:
                    self._send()
                return

    def _send(self) -> None:
        assert self._sink is not None
        lane = self._computed[0]
        window = self._sink.take(lane)
        try:
            self._sums[3] += lane.copy_out(window, self._strict)
        except BaseException:
            lane.drop_output()
            raise
        self._sending.append(self._computed.popleft())

    def _finish(self, lane: Lane) -> None:
        self._sending.popleft()
        self._sums[2] += lane.commit()
        for n, seconds in enumerate(lane.seconds()):
            self._busy[n] += seconds
        self._free.append(lane)

    # -- giving up -------------------------------------------------------------------------------

    def _abandon(self, three: Sequence[Any]) -> None:
        """Wait for the device, deliver what is copied out, and have nothing lent."""
        for stream in three:
            with suppress(CudaError):
                streams.synchronize(streams.handle_of(stream))
        while self._sending:
            lane = self._sending.popleft()
            try:
                done = lane.done()
            except CudaError:
                done = False
            if done:
                lane.commit()
            else:
                lane.drop_output()
        while self._computed:
            self._computed.popleft().drop_output()
