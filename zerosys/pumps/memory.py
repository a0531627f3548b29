"""give() and receive(): memory to a pipe, never to be seen changed, and bytes straight into their place."""

from __future__ import annotations

import errno
import select
import time
from operator import index
from typing import Any, SupportsFloat, SupportsIndex

from zerosys import _mmap
from zerosys._mmap import Mapping
from zerosys._splice import SPLICE_F_GIFT, SPLICE_F_NONBLOCK, vmsplice
from zerosys._transfer import Transfer
from zerosys.errors import PumpError, PumpTimeout
from zerosys.pumps.ends import Descriptor
from zerosys.pumps.pumping import pump
from zerosys.pumps.result import PumpResult, carry, result_of, short_source, stopped_by


def give(buffer: Any, pipe: Descriptor, *, timeout: SupportsFloat | None = None) -> PumpResult:
    """Write all of *buffer* to *pipe*, so that later writes to *buffer* are never seen by its reader.

    A private anonymous Mapping of whole pages is handed away for good: its pages are
    moved, not copied, and it is closed. Everything else is copied; the buffer is free when
    the call returns. Shared memory, a region first of all, is refused with ValueError, for
    a peer could write to the pages that were given: pump() copies from it.

    Raises PumpTimeout after *timeout* seconds and PumpError when the pipe has no reader;
    both carry ``moved``, and a Mapping keeps the pages that were not given. See
    vmsplice(2), SPLICE_F_GIFT.
    """
    if isinstance(buffer, Mapping):
        if buffer.flags & _mmap.MAP_SHARED:
            raise ValueError(
                "shared memory cannot be given away, since a peer could write to its pages while the reader "
                "reads them: pump() copies from it"
            )
        if buffer.flags & _mmap.MAP_ANONYMOUS and buffer.size == buffer.mapped_size and buffer.size:
            return _give_pages(buffer, pipe, timeout)
    return pump(buffer, pipe, timeout=timeout)


def _give_pages(mapping: Mapping, pipe: Descriptor, timeout: SupportsFloat | None) -> PumpResult:
    began = time.monotonic()
    given = 0
    poller = select.poll()
    poller.register(pipe, select.POLLOUT)
    try:
        while given < mapping.size:
            try:
                with memoryview(mapping)[given:] as rest:
                    given += vmsplice(pipe, rest, SPLICE_F_GIFT | SPLICE_F_NONBLOCK)
            except BlockingIOError:
                _wait_for_room(poller, None if timeout is None else began + float(timeout), given)
    except OSError as failure:
        if isinstance(failure, PumpError):
            raise
        raise PumpError(failure.errno, failure.strerror, side="sink", moved=given) from None
    except BaseException as stopped:
        carry(stopped, moved=given)
        raise
    mapping.close()
    return PumpResult(given, given, 0, 0, "gift", 0, time.monotonic() - began, False)


def _wait_for_room(poller: select.poll, deadline: float | None, given: int) -> None:
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise PumpTimeout(
            errno.ETIMEDOUT,
            f"the time is over and the pipe has taken {given} bytes",
            side="sink",
            moved=given,
        )
    poller.poll(None if left is None else left * 1000)


def receive(
    fd: Descriptor, place: Any, count: SupportsIndex | None = None, *, timeout: SupportsFloat | None = None
) -> PumpResult:
    """Receive *count* bytes from *fd* straight into *place*, a writable buffer, by one kernel copy.

    *place* is a region, a window of a ring, any buffer; *count* None means all that it
    has room for. Raises ShortSource if the source ends before, PumpTimeout after
    *timeout* seconds, PumpError when it fails; they carry ``moved``, the bytes that are
    in place. See recv(2), read(2).
    """
    began = time.monotonic()
    with memoryview(place) as view:
        wanted = view.nbytes if count is None else index(count)
    with Transfer(fd, place, wanted) as transfer:
        try:
            transfer.run(timeout)
        except BaseException as stopped:
            raising = stopped_by(stopped, transfer)
            if raising is stopped:
                raise
            raise raising from None
        result = result_of(transfer, time.monotonic() - began)
    if result.bytes < wanted:
        raise short_source(wanted, result.bytes)
    return result
