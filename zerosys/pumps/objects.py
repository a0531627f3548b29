"""Ends that only their own methods can read and write: TLS, gzip, BytesIO. A Python call a chunk."""

from __future__ import annotations

import errno
import io
import select
import time
from collections.abc import Callable, Iterator
from typing import Any

from zerosys._transfer import Transfer
from zerosys.errors import PumpError, PumpTimeout
from zerosys.pumps.ends import Found, is_buffer
from zerosys.pumps.result import PumpResult, carry

_CHUNK = 256 << 10


class _Clock:
    """The deadlines of one run."""

    def __init__(self, timeout: float | None, stall: float | None) -> None:
        self.began = self.moved_at = time.monotonic()
        self._timeout, self._stall = timeout, stall

    def left(self) -> float | None:
        """Seconds until the nearer deadline, 0 if it is past; None if there is none."""
        ends = []
        if self._timeout is not None:
            ends.append(self.began + self._timeout)
        if self._stall is not None:
            ends.append(self.moved_at + self._stall)
        return max(0.0, min(ends) - time.monotonic()) if ends else None


def pump_objects(
    src: Found,
    dst: Found,
    count: int | None,
    *,
    timeout: float | None,
    stall_timeout: float | None,
    rate: float | None,
    touch_flags: bool,
    progress: Callable[[PumpResult], object] | None,
) -> PumpResult:
    """Carry bytes by the methods of those ends that need it; all are counted as copied.

    The deadlines are looked at between two calls of such a method: one that sleeps cannot
    be woken.
    """
    count = _fitting(src, dst, count, rate)
    clock = _Clock(timeout, stall_timeout)
    write = _writer(dst, clock, touch_flags)
    done, looked = 0, clock.began
    left = memoryview(b"")  # what was taken from the source and is not in the sink
    try:
        for taken in _chunks(src, count, clock):
            left = memoryview(taken)
            for part in write(taken):
                done += part
                left = left[part:]
                clock.moved_at = time.monotonic()
            if rate is not None:
                time.sleep(max(0.0, clock.began + done / rate - time.monotonic()))
            if progress and time.monotonic() - looked >= 0.1:
                looked = time.monotonic()
                progress(_result(done, clock))
    except BaseException as stopped:
        if isinstance(stopped, PumpError):
            stopped.moved = done
        else:
            carry(stopped, moved=done, stranded=len(left), stranded_bytes=bytes(left))
        raise
    finally:
        src.settle(done + len(left))
        dst.settle(done)
    return _result(done, clock)


def _fitting(src: Found, dst: Found, count: int | None, rate: float | None) -> int | None:
    """*count*, or what a sink in memory has room for. Raises ValueError as Transfer() does."""
    if count is not None and count < 0:
        raise ValueError(f"count must be 0 or more, not {count}")
    if rate is not None and not rate > 0:
        raise ValueError(f"rate must be None or bytes a second > 0, not {rate!r}")
    for found, name in ((src, "src"), (dst, "dst")):
        memory = is_buffer(found.end)
        if found.offset is not None and (found.is_object or memory):
            what = "a buffer: slice it" if memory else "read and written by its own methods: seek it"
            raise ValueError(f"offset_{name} is for files, and {name} is {what} instead")
    if dst.is_object or not is_buffer(dst.end):
        return count
    with memoryview(dst.end) as place:
        if place.readonly or not place.c_contiguous:
            raise TypeError("dst must be a writable, contiguous buffer")
        room = place.nbytes
    if count is not None and count > room:
        raise ValueError(
            f"count is {count}, but dst has {room} bytes: pass a longer buffer or a smaller count"
        )
    return room if count is None else count


def _result(done: int, clock: _Clock) -> PumpResult:
    return PumpResult(done, 0, 0, done, "object", 0, time.monotonic() - clock.began, False)


def _late(side: str, stranded: bytes = b"") -> PumpTimeout:
    what = "the source had nothing more" if side == "source" else "the sink took no more"
    return PumpTimeout(errno.ETIMEDOUT, f"the time is over and {what}", side=side, stranded_bytes=stranded)


def _chunks(src: Found, count: int | None, clock: _Clock) -> Iterator[bytes]:
    """The bytes of the source, at most *count* of them."""
    left = count
    if src.ahead:
        ahead = src.ahead[:left]
        src.take(len(ahead))
        yield ahead
        left = None if left is None else left - len(ahead)
    read = _reader(src, clock)
    while left is None or left > 0:
        if src.is_object and clock.left() == 0:
            raise _late("source")
        data = read(_CHUNK if left is None else min(_CHUNK, left))
        if not data:
            return
        yield data
        left = None if left is None else left - len(data)


def _reader(src: Found, clock: _Clock) -> Callable[[int], bytes]:
    if src.is_object:
        return _own_reader(src.end)
    if is_buffer(src.end):
        return io.BytesIO(src.end).read
    return _descriptor_reader(src, clock)


def _own_reader(end: Any) -> Callable[[int], bytes]:
    read = getattr(end, "read1", None) or getattr(end, "recv", None) or end.read

    def checked(size: int) -> bytes:
        data = read(size)
        if data is None:
            text = f"{end!r} is non-blocking and has nothing: wait before the pump"
            raise BlockingIOError(errno.EAGAIN, text)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"{end!r} gave {type(data).__name__}, not bytes")
        return bytes(data)

    return checked


def _descriptor_reader(src: Found, clock: _Clock) -> Callable[[int], bytes]:
    """Reads what there is, as soon as there is any."""
    offset = src.offset

    def read(size: int) -> bytes:
        nonlocal offset
        place = bytearray(size)
        with Transfer(src.end, place, offset_src=offset) as transfer:
            while not transfer.received and (want := transfer.step()):
                if want == "source" and not _ready(src.end, select.POLLIN, clock):
                    raise _late("source")
            offset = None if offset is None else offset + transfer.received
            return bytes(place[: transfer.received])

    return read


def _ready(end: Any, events: int, clock: _Clock) -> bool:
    poller = select.poll()
    poller.register(end, events)
    left = clock.left()
    return bool(poller.poll(None if left is None else left * 1000))


def _writer(dst: Found, clock: _Clock, touch_flags: bool) -> Callable[[bytes], Iterator[int]]:
    """A function that writes all of what it is given, and tells of each part that went."""
    offset, filled = dst.offset, 0

    def by_descriptor(data: bytes) -> Iterator[int]:
        nonlocal offset
        with Transfer(data, dst.end, offset_dst=offset, touch_flags=touch_flags) as transfer:
            try:
                transfer.run(clock.left())
            except BaseException as stopped:
                yield transfer.delivered
                if not isinstance(stopped, OSError):
                    raise
                kind = PumpTimeout if getattr(stopped, "reason", None) == "late" else PumpError
                rest = data[transfer.delivered :]
                raise kind(stopped.errno, stopped.strerror, side="sink", stranded_bytes=rest) from None
            offset = None if offset is None else offset + len(data)
            yield transfer.delivered

    def by_method(data: bytes) -> Iterator[int]:
        rest = memoryview(data)
        while rest:
            if clock.left() == 0:
                raise _late("sink", bytes(rest))
            n = _write_once(dst.end, rest)
            yield n
            rest = rest[n:]

    def into_memory(data: bytes) -> Iterator[int]:
        nonlocal filled
        place[filled : filled + len(data)] = data
        filled += len(data)
        yield len(data)

    if dst.is_object:
        return by_method
    if is_buffer(dst.end):
        place = memoryview(dst.end).cast("B")
        return into_memory
    return by_descriptor


def _write_once(end: Any, data: memoryview) -> int:
    try:
        n = end.send(data) if hasattr(end, "send") and not hasattr(end, "readable") else end.write(data)
    except OSError as failure:
        raise PumpError(failure.errno, str(failure), side="sink", stranded_bytes=bytes(data)) from failure
    # A file object that tells nothing has taken all; None from a raw one means that it would block.
    if n is None and hasattr(end, "readinto"):
        text = f"{end!r} is non-blocking and full"
        raise PumpError(errno.EAGAIN, text, side="sink", stranded_bytes=bytes(data))
    return len(data) if n is None else int(n)
