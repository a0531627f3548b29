"""pump() with many sinks: the same bytes to each, and what each of them has."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, SupportsFloat, SupportsIndex

from zerosys._fanout import FanOut
from zerosys._splice import splice
from zerosys.errors import PumpError, PumpTimeout, WouldCopy
from zerosys.flags import SpliceFlag
from zerosys.pumps import ends
from zerosys.pumps.ends import Descriptor, End, Found
from zerosys.pumps.result import carry, short_source

OnSlow = Literal["block", "drop"]
LINGER = 5.0  # s: a peer that takes nothing for so long after the source's end is not slow but stuck
_KINDS = {"late": PumpTimeout, "failed": PumpError, "copy": WouldCopy}


@dataclass(frozen=True, slots=True)
class SinkResult:
    """What one sink has: ``bytes`` is the sum of ``moved`` and ``copied``.

    ``dropped`` counts the units that it missed (a last, incomplete one is one), which are
    ``dropped_bytes``; ``stranded`` the bytes that were taken from the source for it and
    that it has not. ``error`` is what it died of.
    """

    bytes: int
    moved: int
    copied: int
    dropped: int
    dropped_bytes: int
    stranded: int
    error: PumpError | None


@dataclass(frozen=True, slots=True)
class FanOutResult:
    """What a source gave (``bytes``), and what each sink has of it, in the order of the call."""

    bytes: int
    sinks: tuple[SinkResult, ...]
    path: str
    pipe_size: int
    seconds: float


def fan_out(
    src: End,
    sinks: Sequence[End],
    count: int | None,
    *,
    offset_src: int | None,
    timeout: SupportsFloat | None,
    stall_timeout: SupportsFloat | None,
    strict: bool,
    touch_flags: bool,
    progress: Callable[[FanOutResult], object] | None,
    pipe_size: SupportsIndex,
    unit: SupportsIndex,
    on_slow: OnSlow,
    linger: SupportsFloat | None,
) -> FanOutResult:
    """Carry the bytes of *src* to every one of *sinks*; see pump()."""
    began = time.monotonic()
    drop = drops(on_slow, strict, unit)
    source = _plain(ends.source(src, offset_src), src)
    if source.ahead and strict:
        raise WouldCopy(None, f"{src!r} has read {len(source.ahead)} bytes ahead: open it with buffering=0")
    found = [_plain(ends.sink(sink, None, f"dst[{n}]"), sink) for n, sink in enumerate(sinks)]
    if strict:
        refuse_copies([sink.end for sink in found])
    go_to_their_positions(found)
    ahead = source.ahead[:count]
    with FanOut(
        source.end,
        [sink.end for sink in found],
        None if count is None else count - len(ahead),
        offset_src=source.offset,
        unit=unit,
        drop=drop,
        pipe_size=pipe_size,
        touch_flags=touch_flags,
        strict=strict,
        linger=linger,
    ) as fan:
        fan.prepend(ahead)
        source.take(len(ahead))
        try:
            fan.run(
                timeout,
                stall_timeout=stall_timeout,
                watch=(lambda _: progress(result_of(fan, unit, began, final=False))) if progress else None,
            )
        except BaseException as stopped:
            raising = stopped_by(stopped, fan, unit, began)
            settle(fan, source, found)
            if raising is stopped:
                raise
            raise raising from None
        settle(fan, source, found)
        if count is not None and fan.taken < count:
            raise short_source(count, fan.taken)
        return result_of(fan, unit, began)


def drops(on_slow: str, strict: bool, unit: SupportsIndex) -> bool:
    """Whether slow sinks miss units. Raises ValueError for what does not go together."""
    if on_slow not in ("block", "drop"):
        raise ValueError(f"on_slow must be 'block' or 'drop', not {on_slow!r}")
    if strict and on_slow == "drop" and int(unit) > 1:
        raise ValueError(
            f"strict and on_slow='drop' do not go together with unit={unit}: the end of a unit that does not "
            "fit is copied; pass unit=1, or no strict"
        )
    return on_slow == "drop"


def refuse_copies(sinks: Sequence[Descriptor]) -> None:
    """Raise WouldCopy, before a byte is taken, for a sink that takes no pages; an empty pipe finds out."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        for number, sink in enumerate(sinks):
            if not ends.is_buffer(sink):  # which is no sink of a fan-out, as layer 0 says
                _refuse_copies(reader, sink, f"dst[{number}]")
    finally:
        os.close(reader)
        os.close(writer)


def _refuse_copies(empty: int, sink: Descriptor, name: str) -> None:
    fd = sink if isinstance(sink, int) else sink.fileno()
    ends.status(fd, name)
    try:
        splice(empty, fd, 1, flags=SpliceFlag.NONBLOCK)
    except OSError as refusal:
        if refusal.errno != errno.EINVAL:
            return  # nothing in the pipe; or something that the run will say
    else:
        return
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
        why = "is open with O_APPEND, where only a copying write can append: reopen it without and seek"
    else:
        why = "takes no bytes without a copy: pump to a pipe, a socket or a file"
    raise WouldCopy(
        errno.EOPNOTSUPP,
        f"{name} (descriptor {fd}) {why}, or allow the copy, which strict refuses",
        side="sink",
    )


def go_to_their_positions(found: Sequence[Found]) -> None:
    """Have each descriptor stand where its file object says it is, which is the same after a flush."""
    for sink in found:
        if sink.offset is not None:
            os.lseek(sink.end.fileno(), sink.offset, os.SEEK_SET)


def settle(fan: FanOut, source: Found, found: Sequence[Found]) -> None:
    """Tell file objects how far they went."""
    source.settle(fan.taken)
    for number, sink in enumerate(found):
        moved, copied, *_ = fan.branch(number)
        sink.settle(moved + copied)


def _plain(found: Found, end: End) -> Found:
    if found.is_object:
        raise TypeError(
            f"{end!r} is read and written by its own methods only: it cannot take part in a fan-out"
        )
    return found


def result_of(fan: FanOut, unit: SupportsIndex, began: float, *, final: bool = True) -> FanOutResult:
    """What *fan* has done by now; a *final* result takes what dead sinks have stranded out of their pipes."""
    sinks = tuple(_sink_result(fan, number, int(unit), final) for number in range(len(fan.watched) - 1))
    return FanOutResult(fan.taken, sinks, "tee", fan.pipe_size, time.monotonic() - began)


def _sink_result(fan: FanOut, number: int, unit: int, final: bool) -> SinkResult:
    moved, copied, dropped, stranded, error = fan.branch(number)
    failure = None
    if error:
        held = fan.take_stranded(number) if final else b""
        text = f"{os.strerror(error)}; sink {number} failed after {moved + copied} bytes"
        failure = PumpError(error, text, side="sink", moved=moved + copied, stranded_bytes=held)
    return SinkResult(moved + copied, moved, copied, -(-dropped // unit), dropped, stranded, failure)


def stopped_by(stopped: BaseException, fan: FanOut, unit: SupportsIndex, began: float) -> BaseException:
    """What to raise for *stopped*, which ended *fan*, with all that is known of its sinks."""
    kind = _KINDS.get(getattr(stopped, "reason", fan.reason) or "")
    raising = stopped
    with suppress(OSError, MemoryError):  # what is told then is right too, but one can be ahead of it
        fan.catch_up()
    if kind and isinstance(stopped, OSError):
        raising = kind(stopped.errno, stopped.strerror, side=fan.side, moved=fan.taken)
    result = result_of(fan, unit, began)
    each = tuple(
        one.error.stranded_bytes if one.error else fan.take_stranded(number)
        for number, one in enumerate(result.sinks)
    )
    staged = fan.take_staged()
    carry(raising, moved=fan.taken, result=result, stranded_each=each)
    carry(raising, stranded=len(staged), stranded_bytes=staged)
    return raising
