"""pump(): bytes from here to there, and the truth about how it went."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, SupportsFloat, SupportsIndex, overload

from zerosys._transfer import Transfer
from zerosys.errors import WouldCopy
from zerosys.pumps import ends
from zerosys.pumps.ends import End, Found
from zerosys.pumps.fanning import LINGER, FanOutResult, OnSlow, fan_out
from zerosys.pumps.objects import pump_objects
from zerosys.pumps.result import PumpResult, result_of, short_source, stopped_by
from zerosys.sizes import parse_size

Progress = Callable[[PumpResult], object]


@overload
def pump(
    src: End,
    dst: End,
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
    pipe_size: SupportsIndex | str = ...,
    spin: SupportsFloat = ...,
) -> PumpResult: ...


# A sequence, since a list of sockets is no list of ends to a checker; bytes, which are one too, are above.
@overload
def pump(
    src: End,
    dst: Sequence[End],
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
) -> FanOutResult: ...


def pump(
    src: End,
    dst: End | Sequence[End],
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
    pipe_size: SupportsIndex | str = 1 << 20,
    spin: SupportsFloat = 0.0,
    unit: SupportsIndex = 1,
    on_slow: OnSlow = "block",
    linger: SupportsFloat | None = LINGER,
) -> PumpResult | FanOutResult:
    """Carry bytes from *src* to *dst* without a copy where the kernel can, and tell how they went.

    An end is a descriptor (an int, or what has ``fileno()``), a Python file or socket, or
    a buffer (a region is one). *count* bytes are carried, or "64MiB" as text; None means
    all until the source ends or the memory does. Offsets are for files; without them a
    file's own position is used and advanced, which for a Python file object is tell(). A
    file object's read-ahead goes first (copied), and a sink is flushed first. What wraps
    another file or socket (TLS, gzip) is pumped by its own methods, path "object".

    *strict* raises WouldCopy before the first copy, and for a sink that takes no pages (one open with
    O_APPEND) before it looks whether the source has any. *stable* makes the sink's bytes equal
    the source's at the time of the call: pages are copied where a later write to the
    source would still be seen. *rate* is the most bytes a second, or text such as
    "10MiB". *progress* is called with a PumpResult about ten times a second while bytes
    move. *pipe_size* is a wish for the private pipe; *spin* the seconds to try again before
    a sleep, worth while where the other end is as busy as this one. A blocking socket as *dst* is
    non-blocking meanwhile, but not descriptors 0 to 2, nor with *touch_flags* false:
    there the last hop is a copying send.

    A list of sinks each get all of the bytes, and a FanOutResult tells what each has: a pipe
    for each is how far it can lag behind. With *on_slow* "block" the slowest sets the pace;
    with "drop" a sink that has no room misses whole units of *unit* bytes, counted exactly,
    and when the source has ended it gets what its pipe holds, unless it takes nothing for
    *linger* seconds: then it is given up (ETIMEDOUT; None waits for ever). A sink that fails
    ends alone, its ``error`` has its bytes; PumpError if none is left.

    Raises PumpTimeout after *timeout* seconds, or *stall_timeout* without a byte moving;
    ShortSource if the source ends before *count*; PumpError when an end fails. They, and
    KeyboardInterrupt, carry ``moved``, ``stranded``, ``stranded_bytes`` and ``side``; with a
    list of sinks ``result``, ``stranded_each``, what each living sink has not of the first ``moved`` bytes,
    and ``stranded_bytes``, what has left the source behind those: send them in this order, and pump on.
    Both ends stay the caller's. See splice(2), sendfile(2), copy_file_range(2).
    """
    began = time.monotonic()
    wanted = _as_size(count)
    if isinstance(dst, list | tuple):
        _refuse_for_many(offset_dst=offset_dst, rate=rate, stable=stable, spin=spin)
        return fan_out(
            src,
            dst,
            wanted,
            offset_src=_as_index(offset_src),
            timeout=timeout,
            stall_timeout=stall_timeout,
            strict=strict,
            touch_flags=touch_flags,
            progress=progress,
            pipe_size=_as_size(pipe_size),
            unit=unit,
            on_slow=on_slow,
            linger=linger,
        )
    if on_slow != "block" or index(unit) != 1 or linger != LINGER:
        raise ValueError("unit, on_slow and linger are for a list of sinks")
    found_src, found_dst = ends.source(src, _as_index(offset_src)), ends.sink(dst, _as_index(offset_dst))
    pace = parse_size(rate) if isinstance(rate, str) else rate
    if strict:
        _refuse_copies(found_src, found_dst, src, dst)
    if found_src.is_object or found_dst.is_object:
        result = pump_objects(
            found_src,
            found_dst,
            wanted,
            timeout=None if timeout is None else float(timeout),
            stall_timeout=None if stall_timeout is None else float(stall_timeout),
            rate=None if pace is None else float(pace),
            touch_flags=touch_flags,
            progress=progress,
        )
    else:
        wanted = _bounded_in_one_file(found_src, found_dst, wanted)
        deadline = None if timeout is None else began + float(timeout)
        ahead = _send_ahead(found_src, found_dst, wanted, deadline, touch_flags)
        with Transfer(
            found_src.end,
            found_dst.end,
            None if wanted is None else wanted - ahead,
            offset_src=found_src.offset,
            offset_dst=found_dst.offset,
            pipe_size=_as_size(pipe_size),
            touch_flags=touch_flags,
            strict=strict,
            stable=stable,
            rate=pace,
            spin=spin,
        ) as transfer:
            result = _run(transfer, found_src, found_dst, began, deadline, stall_timeout, progress, ahead)
    if wanted is not None and result.bytes < wanted:
        raise short_source(wanted, result.bytes)
    return result


def _refuse_for_many(**options: object) -> None:
    for name, value in options.items():
        if value:
            raise ValueError(f"{name}={value!r} is for one sink, not a list of them")


def _as_index(value: SupportsIndex | None) -> int | None:
    return None if value is None else index(value)


def _as_size(size: SupportsIndex | str | None) -> Any:
    return parse_size(size) if isinstance(size, str) else size if size is None else index(size)


def _refuse_copies(found_src: Found, found_dst: Found, src: object, dst: object) -> None:
    """What is known to need copies before a byte moves; layer 0 finds out the rest by trying."""
    for found, end in ((found_src, src), (found_dst, dst)):
        if found.is_object:
            raise WouldCopy(
                errno.EOPNOTSUPP, f"{end!r} is read and written by its own methods only, which copies"
            )
    if found_src.ahead:
        raise WouldCopy(
            errno.EOPNOTSUPP,
            f"{src!r} has read {len(found_src.ahead)} bytes ahead, which only a copy can deliver: open it "
            "with buffering=0",
        )


def _send_ahead(src: Found, dst: Found, count: int | None, deadline: float | None, touch_flags: bool) -> int:
    """Write what the source had read ahead, and take out of it as much as went; how much that was."""
    ahead = src.ahead[:count]
    if not ahead:
        return 0
    with Transfer(ahead, dst.end, offset_dst=dst.offset, touch_flags=touch_flags) as transfer:
        try:
            transfer.run(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except BaseException as stopped:
            raise stopped_by(stopped, transfer) from None
        finally:
            src.take(transfer.delivered)
    if dst.offset is not None:
        dst.offset += len(ahead)
    return len(ahead)


def _run(
    transfer: Transfer,
    src: Found,
    dst: Found,
    began: float,
    deadline: float | None,
    stall_timeout: SupportsFloat | None,
    progress: Progress | None,
    ahead: int,
) -> PumpResult:
    def watch(running: Transfer) -> None:
        if progress:
            progress(result_of(running, time.monotonic() - began, ahead))

    try:
        transfer.run(
            None if deadline is None else max(0.0, deadline - time.monotonic()),
            stall_timeout=stall_timeout,
            watch=watch if progress else None,
        )
        return result_of(transfer, time.monotonic() - began, ahead)
    except BaseException as stopped:
        raising = stopped_by(stopped, transfer, ahead)
        if raising is stopped:
            raise
        raise raising from None
    finally:
        src.settle(transfer.taken)
        dst.settle(ahead + transfer.delivered)


def _bounded_in_one_file(src: Found, dst: Found, count: int | None) -> int | None:
    """*count*, or what there is now where a file is pumped behind its own end; refuse an overlap."""
    if ends.is_buffer(src.end) or ends.is_buffer(dst.end):
        return count
    from_fd, to_fd = (end if isinstance(end, int) else end.fileno() for end in (src.end, dst.end))
    one, other = ends.status(from_fd, "src"), ends.status(to_fd, "dst")
    if not stat.S_ISREG(one.st_mode) or not os.path.samestat(one, other):
        return count
    start, size = _position(from_fd, src.offset), one.st_size
    appends = fcntl.fcntl(to_fd, fcntl.F_GETFL) & os.O_APPEND
    to = size if appends else _position(to_fd, dst.offset)
    length = max(0, size - start)
    length = length if count is None else min(count, length)
    if start < to + length and to < start + length:
        raise ValueError(
            f"src and dst are the same file, and bytes {start} to {start + length} overlap those at {to}: "
            "pump to another file"
        )
    return length if count is None else count


def _position(fd: int, offset: int | None) -> int:
    return os.lseek(fd, 0, os.SEEK_CUR) if offset is None else offset
