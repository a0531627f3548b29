"""What a pump tells of its run, and how a failed run becomes an error that tells as much."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass

from zerosys._transfer import Transfer
from zerosys.errors import PumpError, PumpTimeout, ShortSource, WouldCopy


@dataclass(frozen=True, slots=True)
class PumpResult:
    """What the sink has, and how it got there.

    ``bytes`` is the sum of ``moved`` (handed on by reference, or carried by the kernel
    without user memory), ``received`` (one kernel copy, straight into its place) and
    ``copied`` (through user memory). ``path`` names the last way taken; ", kernel copies"
    is added where the kernel writes into a file's own pages. ``pipe_size`` is what the
    private pipe got, 0 if there was none. ``aliases``: later writes to the source can
    still be seen by whoever reads the sink.
    """

    bytes: int
    moved: int
    received: int
    copied: int
    path: str
    pipe_size: int
    seconds: float
    aliases: bool


def result_of(transfer: Transfer, seconds: float, ahead: int = 0) -> PumpResult:
    """What *transfer* has done by now; *ahead* bytes were copied before it."""
    return PumpResult(
        bytes=transfer.delivered + ahead,
        moved=transfer.moved,
        received=transfer.received,
        copied=transfer.copied + ahead,
        path=transfer.path,
        pipe_size=transfer.pipe_size,
        seconds=seconds,
        aliases=transfer.aliases,
    )


_KINDS = {"late": PumpTimeout, "failed": PumpError, "copy": WouldCopy}


def stopped_by(stopped: BaseException, transfer: Transfer, ahead: int = 0) -> BaseException:
    """What to raise for *stopped*, which ended *transfer*: a PumpError, or itself if it is not ours.

    Either carries the progress, and takes along what is stranded.
    """
    stranded = transfer.take_stranded()
    kind = _KINDS.get(getattr(stopped, "reason", None) or "")
    if kind and isinstance(stopped, OSError):
        text = (stopped.strerror or "").replace("take_stranded() has", "stranded_bytes has")
        text = text.replace("; run() again goes on", "")
        moved = transfer.delivered + ahead
        return kind(stopped.errno, text, side=transfer.side, moved=moved, stranded_bytes=stranded)
    carry(stopped, moved=transfer.delivered + ahead, stranded=len(stranded), stranded_bytes=stranded)
    return stopped


def carry(stopped: BaseException, **progress: object) -> None:
    """Note *progress* on an exception that is not ours; one with slots has no place for it."""
    for name, value in progress.items():
        with suppress(AttributeError):
            setattr(stopped, name, value)


def short_source(count: int, moved: int) -> ShortSource:
    """The error for a source that ended after *moved* of *count* bytes."""
    return ShortSource(
        errno.ENODATA,
        f"the source ended after {moved} of {count} bytes; pass count=None to take what there is",
        side="source",
        moved=moved,
    )
