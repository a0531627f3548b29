"""``await aio.pump(src, dst)``, with one sink or a list of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from operator import index
from typing import Any, SupportsFloat, SupportsIndex, overload

from zerosys.pumps.aio.ends import End, Endpoint
from zerosys.pumps.aio.fanning import fan_out
from zerosys.pumps.aio.pool import PipePool
from zerosys.pumps.aio.run import Run, seconds
from zerosys.pumps.fanning import LINGER, FanOutResult, OnSlow
from zerosys.pumps.pumping import Progress, _bounded_in_one_file, _refuse_for_many
from zerosys.pumps.result import PumpResult, carry, short_source, stopped_by
from zerosys.sizes import parse_size

_PIPE_SIZE = 1 << 20


@overload
async def pump(
    src: Endpoint,
    dst: list[Endpoint],
    count: SupportsIndex | str | None = ...,
    *,
    offset_src: SupportsIndex | None = ...,
    timeout: SupportsFloat | None = ...,
    stall_timeout: SupportsFloat | None = ...,
    strict: bool = ...,
    touch_flags: bool = ...,
    progress: Callable[[FanOutResult], object] | None = ...,
    pipe_size: SupportsIndex | str = ...,
    unit: SupportsIndex = ...,
    on_slow: OnSlow = ...,
    linger: SupportsFloat | None = ...,
    pool: PipePool | None = ...,
    executor: Executor | None = ...,
) -> FanOutResult: ...


@overload
async def pump(
    src: Endpoint,
    dst: Endpoint,
    count: SupportsIndex | str | None = ...,
    *,
    offset_src: SupportsIndex | None = ...,
    offset_dst: SupportsIndex | None = ...,
    timeout: SupportsFloat | None = ...,
    stall_timeout: SupportsFloat | None = ...,
    strict: bool = ...,
    stable: bool = ...,
    touch_flags: bool = ...,
    rate: SupportsFloat | str | None = ...,
    progress: Progress | None = ...,
    pool: PipePool | None = ...,
    executor: Executor | None = ...,
) -> PumpResult: ...


async def pump(
    src: Endpoint,
    dst: Endpoint | list[Endpoint],
    count: SupportsIndex | str | None = None,
    *,
    offset_src: SupportsIndex | None = None,
    offset_dst: SupportsIndex | None = None,
    timeout: SupportsFloat | None = None,
    stall_timeout: SupportsFloat | None = None,
    strict: bool = False,
    stable: bool = False,
    touch_flags: bool = True,
    rate: SupportsFloat | str | None = None,
    progress: Callable[[Any], object] | None = None,
    pipe_size: SupportsIndex | str = _PIPE_SIZE,
    unit: SupportsIndex = 1,
    on_slow: OnSlow = "block",
    linger: SupportsFloat | None = LINGER,
    pool: PipePool | None = None,
    executor: Executor | None = None,
) -> PumpResult | FanOutResult:
    """Carry bytes from *src* to *dst* while the event loop goes on, and tell how they went.

    As zerosys.pump(), with these differences. An end can be a pair (StreamReader,
    StreamWriter) too, of which the socket is pumped: what the reader holds goes first
    (copied), the writer is flushed. What only its own methods can read is refused. Pipes
    in between come from *pool*, one for each loop by default. Files move in slices on
    *executor*, the pool's own threads by default. Descriptors are duplicated: closing an end
    while it is pumped ends nothing, cancelling does.

    A list of sinks (a tuple is a pair of streams) each get all of the bytes, as in
    zerosys.pump(): *unit*, *on_slow*, *linger* and *pipe_size* are as there, and each sink has a
    pipe of its own, which does not come from *pool*.

    Raises what zerosys.pump() does. CancelledError carries ``moved``, ``stranded``,
    ``stranded_bytes`` and ``side`` as PumpError does (with a list of sinks ``result`` and ``stranded_each``
    too); it comes once no thread works for the pump any more. See splice(2), epoll(7).
    """
    wanted = parse_size(count) if isinstance(count, str) else None if count is None else index(count)
    if isinstance(dst, list):
        _refuse_for_many(offset_dst=offset_dst, rate=rate, stable=stable)
        return await fan_out(
            src,
            dst,
            wanted,
            offset_src=_index(offset_src),
            timeout=seconds(timeout, "timeout"),
            stall_timeout=seconds(stall_timeout, "stall_timeout"),
            strict=strict,
            touch_flags=touch_flags,
            progress=progress,
            pipe_size=parse_size(pipe_size) if isinstance(pipe_size, str) else index(pipe_size),
            unit=unit,
            on_slow=on_slow,
            linger=linger,
            pool=pool,
            executor=executor,
        )
    if (on_slow, index(unit), linger, pipe_size) != ("block", 1, LINGER, _PIPE_SIZE):
        raise ValueError(
            "unit, on_slow, linger and pipe_size are for a list of sinks; a pool has its own size"
        )
    with ExitStack() as stack:
        source = stack.enter_context(End(src, _index(offset_src), reads=True, writes=False))
        sink = stack.enter_context(End(dst, _index(offset_dst), reads=False, writes=True))
        if not source.is_memory and not sink.is_memory:
            wanted = _bounded_in_one_file(source.found, sink.found, wanted)
        await sink.flush()
        run = Run(pool, executor, strict=strict, touch_flags=touch_flags,
                  watch=(lambda: progress(*run.results())) if progress else None)  # fmt: skip
        stack.enter_context(run)
        flow = run.add(
            source,
            sink,
            wanted,
            offset_src=source.offset,
            offset_dst=sink.offset,
            stable=stable,
            rate=parse_size(rate) if isinstance(rate, str) else rate,
        )
        run.limit(seconds(timeout, "timeout"), seconds(stall_timeout, "stall_timeout"))
        flow.steps.precede(source.take_over(wanted, strict))
        transfer = flow.steps.transfer
        try:
            await run.wait()
        except BaseException as stopped:
            carry(stopped, side=transfer.side)
            raising = stopped_by(stopped, transfer)
            if raising is stopped:
                raise
            raise raising from None
        finally:
            source.settle(transfer.taken)
            sink.settle(transfer.delivered)
        (result,) = run.results()
    if wanted is not None and result.bytes < wanted:
        raise short_source(wanted, result.bytes)
    return result


def _index(offset: SupportsIndex | None) -> int | None:
    return None if offset is None else index(offset)
