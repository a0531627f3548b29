"""``await aio.relay(a, b)``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from socket import SHUT_RD, SHUT_WR
from typing import SupportsFloat

from zerosys.pumps.aio.ends import Duplex, End, TwoWay
from zerosys.pumps.aio.flow import Flow
from zerosys.pumps.aio.pool import PipePool
from zerosys.pumps.aio.run import Run, seconds
from zerosys.pumps.both_ways import RelayResult
from zerosys.pumps.ends import refuse_same
from zerosys.pumps.result import carry, stopped_by


async def relay(
    a: TwoWay,
    b: TwoWay,
    *,
    timeout: SupportsFloat | None = None,
    stall_timeout: SupportsFloat | None = None,
    strict: bool = False,
    touch_flags: bool = True,
    progress: Callable[[RelayResult], object] | None = None,
    pool: PipePool | None = None,
    executor: Executor | None = None,
) -> RelayResult:
    """Carry bytes between *a* and *b*, both ways, until both have ended, while the event loop goes on.

    An end is a connected stream socket, a pair (StreamReader, StreamWriter), or a pair
    (source, sink) of descriptors such as a terminal's. When one will send no more, the
    other is told so (SHUT_WR) once it has all the bytes before that. An idle relay holds
    no pipe and no thread, and has no timer unless *stall_timeout* asks for one; *pool* and
    *executor* are as in aio.pump().

    Raises as zerosys.relay() does: a side that takes no more ends its own direction, and
    the error comes when the other is done too. That and CancelledError carry ``result``,
    ``moved``, ``side``, ``stranded_bytes`` of the direction that failed, and
    ``stranded_each``, those of both. See splice(2), shutdown(2).
    """
    ends: dict[Flow, tuple[End, End]] = {}

    def after(flow: Flow, failure: BaseException | None) -> bool:
        source, sink = ends[flow]
        if failure is None:
            sink.shutdown(SHUT_WR)
            return True
        source.shutdown(SHUT_RD)
        # What comes the other way may still be wanted; but not from a socket that was reset.
        return getattr(failure, "reason", None) == "failed" and flow.steps.transfer.side == "sink"

    with ExitStack() as stack:
        near, far = stack.enter_context(Duplex(a, "a")), stack.enter_context(Duplex(b, "b"))
        refuse_same(near.source.target, far.source.target)
        for end in (near, far):
            await end.sink.flush()
        run = Run(pool, executor, strict=strict, touch_flags=touch_flags, after=after,
                  watch=(lambda: progress(RelayResult(*run.results()))) if progress else None)  # fmt: skip
        stack.enter_context(run)
        for source, sink in ((near.source, far.sink), (far.source, near.sink)):
            ends[run.add(source, sink)] = source, sink
        run.limit(seconds(timeout, "timeout"), seconds(stall_timeout, "stall_timeout"))
        for flow, (source, _) in ends.items():
            flow.steps.precede(source.take_over(None, strict))
        try:
            await run.wait()
        except BaseException as stopped:
            raising = _told(stopped, run)
            if raising is stopped:
                raise
            raise raising from None
        return RelayResult(*run.results())


def _told(stopped: BaseException, run: Run) -> BaseException:
    """*stopped* as what to raise, with the progress of both ways."""
    result = RelayResult(*run.results())
    first = run.guilty or next((flow for flow in run.flows if flow.steps.transfer.stranded), run.flows[0])
    carry(stopped, side=first.steps.transfer.side)
    raising = stopped_by(stopped, first.steps.transfer)
    of_first: bytes = getattr(raising, "stranded_bytes", b"")
    each = tuple(of_first if flow is first else flow.steps.transfer.take_stranded() for flow in run.flows)
    carry(raising, result=result, stranded_each=each)
    return raising
