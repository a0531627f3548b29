"""Recordings into rings and out of them: played at a rate, recorded with what was lost marked."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from zerosys.ring.recording import Recording, SigMF

if TYPE_CHECKING:
    from zerosys.ring.ends import StreamReader, StreamWriter

TICK = 0.02  # seconds of samples that are played together


def play(
    recording: Recording,
    writer: StreamWriter,
    *,
    rate: float | None = None,
    repeat: int = 1,
    timeout: float | None = None,
) -> int:
    """Play *recording* into a ring's *writer*, *repeat* times; return how many samples went.

    *rate* samples a second are played, by the clock and not by pauses, so that no error adds up; None is
    as fast as the ring takes them. The kernel reads the file straight into the ring. The writer stays open.
    Raises TimeoutError where the ring had no room for *timeout* seconds, and ValueError for a ring of
    items of another size.
    """
    size = recording.format.dtype.itemsize
    if writer.ring.item_size != size:
        raise ValueError(
            f"samples of {recording.format.name} take {size} bytes, "
            f"and the ring's items {writer.ring.item_size}"
        )
    most = max(1, writer.ring.limit // 2)
    block = most if rate is None else max(1, min(most, round(rate * TICK)))
    begun, played, length = time.monotonic(), 0, len(recording)
    for _ in range(repeat):
        fd = recording.open()
        try:
            end = played + length
            while played < end:
                if rate is not None:
                    time.sleep(max(0.0, begun + played / rate - time.monotonic()))
                played += writer.receive(fd, min(block, end - played), timeout)
        finally:
            os.close(fd)
    return played


def record(
    reader: StreamReader,
    fd: int,
    count: int | None = None,
    *,
    timeout: float | None = None,
    notes: SigMF | None = None,
) -> int:
    """Write *count* items of a ring's *reader* (None: all until the end) to *fd*; return how many.

    Where the ring may overwrite, items that were lost are told to *notes*. Raises TimeoutError where
    nothing came for *timeout* seconds.
    """
    if reader.ring.on_full != "overwrite":
        return int(reader.send(fd, count, timeout))
    size, done, lost = reader.ring.item_size, 0, reader.lost
    room = bytearray(size * max(1, reader.ring.limit // 4))
    while count is None or done < count:
        most = len(room) if count is None else min(len(room), (count - done) * size)
        waiting = max(1, min(reader.available, most // size))
        got = reader.read_into(memoryview(room)[: waiting * size], timeout)
        if reader.lost != lost and notes:
            notes.lost(done, reader.lost - lost)
        if not got:
            break
        _write_all(fd, memoryview(room)[: got * size])
        done += got
    return done


def _write_all(fd: int, data: memoryview) -> None:
    while data:
        data = data[os.write(fd, data) :]
