"""``await aio.pump(src, dst)``."""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import ExitStack
from operator import index
from typing import SupportsFloat, SupportsIndex

from zerosys.pumps.aio.ends import End, Endpoint
from zerosys.pumps.aio.pool import PipePool
from zerosys.pumps.aio.run import Run
from zerosys.pumps.pumping import Progress, _bounded_in_one_file
from zerosys.pumps.result import PumpResult, carry, short_source, stopped_by
from zerosys.sizes import parse_size


async def pump(
    src: Endpoint,
    dst: Endpoint,
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
    progress: Progress | None = None,
    pool: PipePool | None = None,
    executor: Executor | None = None,
) -> PumpResult:
    """Carry bytes from *src* to *dst* while the event loop goes on, and tell how they went.

    As zerosys.pump(), with these differences. An end can be a pair (StreamReader,
    StreamWriter) too, of which the socket is pumped: what the reader holds goes first
    (copied), the writer is flushed. What only its own methods can read is refused. Pipes
    in between come from *pool*, one for each loop by default. Files move in slices on
    *executor*, the pool's own threads by default. Descriptors are duplicated: closing an end
    while it is pumped ends nothing, cancelling does.

    Raises what zerosys.pump() does. CancelledError carries ``moved``, ``stranded``,
    ``stranded_bytes`` and ``side`` as PumpError does; it comes once no thread works for
    the pump any more. See splice(2), epoll(7).
    """
    wanted = parse_size(count) if isinstance(count, str) else None if count is None else index(count)
    with ExitStack() as stack:
        source = stack.enter_context(End(src, _index(offset_src), reads=True, writes=False))
        sink = stack.enter_context(End(dst, _index(offset_dst), reads=False, writes=True))
        if not source.is_memory and not sink.is_memory:
            wanted = _bounded_in_one_file(source.found, sink.found, wanted)
        await sink.flush()
        source.take_over(wanted, strict)
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
        run.limit(_seconds(timeout), _seconds(stall_timeout))
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


def _seconds(limit: SupportsFloat | None) -> float | None:
    return None if limit is None else float(limit)
