"""One run of ``zerosys pump``: open the places, carry, tell."""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import stat
import sys
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from zerosys._splice import set_pipe_capacity
from zerosys.cli.places import Place, opened, place
from zerosys.cli.pump.outputs import OutFailed, opened_outputs
from zerosys.cli.pump.progress import Progress, amount
from zerosys.cli.standards import occupy, require_open
from zerosys.errors import PumpError, WouldCopy
from zerosys.pumps.fanning import FanOutResult
from zerosys.pumps.pumping import pump
from zerosys.pumps.result import PumpResult
from zerosys.sizes import parse_size

FAILED, SOURCE, SINK = 1, 3, 4
STDOUT = place("-")
_ROOM = 1 << 20
_MAY_BE_NONE = ("--count", "--offset")  # other sizes are at least 1


@dataclass(frozen=True)
class Job:
    """What was asked for, checked."""

    source: Place
    sinks: list[Place]
    many: bool  # whether each sink has a pipe of its own, and is told of
    count: int | None
    offset: int | None
    append: bool
    options: dict[str, Any]  # pump()'s
    quiet: bool
    json: bool

    @property
    def to_stdout(self) -> bool:
        """Whether the bytes go to standard output."""
        return any(sink.kind == "standard" or sink.path == "1" for sink in self.sinks)


def job(chosen: argparse.Namespace) -> Job:
    """The job that the arguments describe. Raises ValueError for what makes no sense."""
    sinks = [place(text) for text in chosen.sinks]
    if not sinks or (chosen.tee and STDOUT not in sinks):
        sinks = [STDOUT, *sinks]
    if len(set(sinks)) < len(sinks):
        raise ValueError("an OUT is named twice")
    many = len(sinks) > 1 or chosen.on_slow == "drop"
    _refuse_together(chosen, many)
    return Job(
        place(chosen.source),
        sinks,
        many,
        _size(chosen.count, "--count"),
        _size(chosen.offset, "--offset"),
        chosen.append,
        _options(chosen, many),
        chosen.quiet,
        chosen.json,
    )


def _refuse_together(chosen: argparse.Namespace, many: bool) -> None:
    """Raise ValueError for options that do not go together, and for less than no time."""
    for name in ("rate", "stable"):
        if getattr(chosen, name) and many:
            raise ValueError(
                f"--{name} is for one OUT that is waited for: put zerosys pump --{name} ... | before it"
            )
    for name in ("unit", "linger"):
        if getattr(chosen, name) is not None and chosen.on_slow != "drop":
            raise ValueError(f"--{name} is for --on-slow drop")
    for name in ("timeout", "stall_timeout", "linger"):
        if (seconds := getattr(chosen, name)) is not None and not seconds >= 0:
            raise ValueError(f"--{name.replace('_', '-')} must be seconds, 0 or more, not {seconds}")


def _options(chosen: argparse.Namespace, many: bool) -> dict[str, Any]:
    """What pump() is told; nothing for its defaults."""
    unit = _size(chosen.unit, "--unit")
    if chosen.strict and unit is not None and unit > 1:
        raise ValueError("--strict does not go with --unit: the end of a unit that does not fit is copied")
    options = {
        "strict": chosen.strict,
        "stable": chosen.stable,
        "timeout": chosen.timeout,
        "stall_timeout": chosen.stall_timeout,
        "rate": _size(chosen.rate, "--rate"),
        "pipe_size": _size(chosen.pipe_size, "--pipe-size"),
        "on_slow": chosen.on_slow if many else None,
        "unit": unit,
        "linger": chosen.linger,
    }
    return {name: value for name, value in options.items() if value is not None}


def _size(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if text.strip("0") == "" and name in _MAY_BE_NONE:
        return 0
    try:
        return parse_size(text)
    except ValueError as wrong:
        raise ValueError(f"{name}: {wrong}") from None


def carry(job: Job, prog: str) -> int:
    """Do *job*; return the exit status."""
    if (refused := _closed(job, prog)) is not None:
        return refused
    occupy()
    with ExitStack() as stack:
        try:
            source = stack.enter_context(opened(job.source, writes=False, say=prog))
            _check_offset(source, job.offset)
        except OSError as failure:
            return _tell_failure(job, prog, SOURCE, f"IN {job.source.text}: {_short(failure)}")
        try:
            sinks = opened_outputs(job.source, source, job.sinks, stack, append=job.append, say=prog)
        except OutFailed as failed:
            cause = failed.__cause__
            why = _short(cause) if isinstance(cause, OSError) else str(failed)
            return _tell_failure(job, prog, SINK, f"OUT {failed.sink.text}: {why}")
        return _run(job, prog, source, sinks)


def _closed(job: Job, prog: str) -> int | None:
    """The exit status where a descriptor that the shell should have opened is closed, else None.

    All are looked at before any is opened here, which would get that number.
    """
    asked = [("IN", SOURCE, job.source, 0), *(("OUT", SINK, sink, 1) for sink in job.sinks)]
    for side, status, end, standard in asked:
        if end.kind not in ("standard", "fd"):
            continue
        try:
            require_open(standard if end.kind == "standard" else int(end.path))
        except OSError as failure:
            return _tell_failure(job, prog, status, f"{side} {end.text}: {_short(failure)}")
    return None


def _check_offset(source: int, offset: int | None) -> None:
    """Raise OSError where *source* has no byte *offset*; at its very end it has none left."""
    if offset is None:
        return
    if not _seekable(source):
        raise OSError(errno.ESPIPE, "no file, so it has no --offset")
    about = os.fstat(source)
    if not stat.S_ISREG(about.st_mode) or offset <= about.st_size:
        return
    if not os.pread(source, 1, offset):  # pseudo-files have more bytes than their size tells
        raise OSError(errno.EINVAL, f"--offset {offset} is behind its end: it has {about.st_size} bytes")


def _run(job: Job, prog: str, source: int, sinks: list[int]) -> int:
    for fd in (source, *sinks):
        _widen(fd)
    display = _display(job, source)
    options = job.options | {"offset_src": job.offset}
    if display is not None:
        options["progress"] = lambda result: display.show(_as_one(result))
    target: Any = sinks if job.many else sinks[0]
    try:
        result: Any = pump(source, target, job.count, **options)
    except PumpError as failure:
        return _stopped(job, prog, failure, display, _seekable(source))
    except OSError as failure:
        return _stopped(job, prog, PumpError(failure.errno, failure.strerror, side=None), display, True)
    finally:
        if display is not None:
            display.leave()
    if display is not None:
        display.end(_as_one(result))
    return _done(job, prog, result)


def _widen(fd: int) -> None:
    """Make room in a pipe: fewer, longer turns. A wish, which a used-up budget refuses."""
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        with suppress(OSError):
            set_pipe_capacity(fd, _ROOM)


def _seekable(fd: int) -> bool:
    try:
        os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True


def _display(job: Job, source: int) -> Progress | None:
    """The progress, where a terminal shows it and the bytes themselves do not go there."""
    if job.quiet or not sys.stderr.isatty() or (job.to_stdout and os.isatty(1)):
        return None
    return Progress(sys.stderr, _expected(job, source))


def _expected(job: Job, source: int) -> int | None:
    about = os.fstat(source)
    if job.count is not None or not stat.S_ISREG(about.st_mode) or not about.st_size:
        return job.count
    start = os.lseek(source, 0, os.SEEK_CUR) if job.offset is None else job.offset
    return max(0, about.st_size - start) or None


def _as_one(result: PumpResult | FanOutResult) -> PumpResult:
    """Of many sinks the source is shown: what it gave."""
    if isinstance(result, PumpResult):
        return result
    return PumpResult(result.bytes, 0, 0, 0, result.path, result.pipe_size, result.seconds, False)


def _done(job: Job, prog: str, result: PumpResult | FanOutResult) -> int:
    failures = [] if isinstance(result, PumpResult) else [sink.error for sink in result.sinks]
    for sink, error in zip(job.sinks, failures, strict=False):
        if error is not None:
            print(f"{prog}: OUT {sink.text}: {_short(error)}", file=sys.stderr)
    if isinstance(result, FanOutResult):
        _tell_missed(job, prog, result)
    if job.json:
        _print_json(job, _told(job, result))
    return SINK if any(failures) else 0


def _tell_missed(job: Job, prog: str, result: FanOutResult) -> None:
    for sink, had in zip(job.sinks, result.sinks, strict=True):
        if had.dropped:
            units = f"{had.dropped} {'unit' if had.dropped == 1 else 'units'}"
            print(
                f"{prog}: OUT {sink.text}: too slow, missed {units} ({amount(had.dropped_bytes)})",
                file=sys.stderr,
            )


def _told(job: Job, result: PumpResult | FanOutResult) -> dict[str, Any]:
    if isinstance(result, PumpResult):
        return asdict(result)
    sinks = [
        {"to": place.text} | asdict(replace(sink, error=None)) | {"error": sink.error and _short(sink.error)}
        for place, sink in zip(job.sinks, result.sinks, strict=True)
    ]
    return {
        "bytes": result.bytes,
        "path": result.path,
        "pipe_size": result.pipe_size,
        "seconds": result.seconds,
        "sinks": sinks,
    }


def _stopped(job: Job, prog: str, failure: PumpError, display: Progress | None, keeps: bool) -> int:
    """Tell of *failure*. A source that *keeps* its bytes, as a file does, has lost none."""
    status = {"source": SOURCE, "sink": SINK}.get(failure.side or "", FAILED)
    if failure.errno in (errno.ETIMEDOUT, errno.EOPNOTSUPP):
        status = FAILED  # nobody's failure: it was told to end
    if display is not None:
        display.leave()
    if failure.errno == errno.EPIPE and len(job.sinks) == 1 and job.to_stdout:
        _end_by_sigpipe()
    side = {"source": f"IN {job.source.text}: ", "sink": f"OUT {job.sinks[0].text}: "}.get(
        failure.side or "", ""
    )
    text = f"{side}{_short(failure)}; {amount(failure.moved)} had arrived"
    if failure.stranded and not keeps:
        text += f", {amount(failure.stranded)} more were taken from IN and are lost"
    progress = {"side": failure.side, "moved": failure.moved, "stranded": failure.stranded}
    return _tell_failure(job, prog, status, text, **progress)


def _short(failure: OSError) -> str:
    """Its cause, without what the library adds for callers."""
    if isinstance(failure, WouldCopy):
        if "O_APPEND" in (failure.strerror or ""):
            return "it is open for appending, which only copies can do, and --strict refuses them"
        return "it would have to be copied, which --strict refuses"
    return (failure.strerror or str(failure)).partition(";")[0]


def _end_by_sigpipe() -> None:
    """As whoever writes to a pipe that nobody reads ends; Python itself has the signal ignored."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)


def _tell_failure(job: Job, prog: str, status: int, text: str, **progress: object) -> int:
    print(f"{prog}: {text}", file=sys.stderr)
    if job.json:
        _print_json(job, {"error": text, "status": status, **progress})
    return status


def _print_json(job: Job, told: dict[str, Any]) -> None:
    """On standard output, unless the bytes went there."""
    print(json.dumps(told, indent=2), file=sys.stderr if job.to_stdout else sys.stdout, flush=True)
