"""The work of memhog: map, bind, fill."""

from __future__ import annotations

import os
import sys

from zerosys import _numa
from zerosys._mmap import MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, Mapping
from zerosys.flags import PolicyMode
from zerosys.policy import why_not
from zerosys.refusal import placement_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zerosys.cli.memhog.job import Job

#: A dot is printed for each of these.
PIECE = 10 << 20
PATTERN = b"\xff" * (1 << 20)
MODES = {
    "default": PolicyMode.DEFAULT,
    "local": PolicyMode.LOCAL,
    "interleave": PolicyMode.INTERLEAVE,
    "membind": PolicyMode.BIND,
    "preferred": PolicyMode.PREFERRED,
    "preferred-many": PolicyMode.PREFERRED_MANY,
}


def run(job: Job, prog: str) -> int:
    """Fill what *job* asks for; return the exit status."""
    try:
        mapping = _mapped(job, prog)
    except (OSError, ValueError, OverflowError) as refusal:
        why = refusal.strerror if isinstance(refusal, OSError) else f"mmap: {refusal}"
        print(f"{prog}: {why}", file=sys.stderr)
        return 1
    with mapping:
        _bind(mapping, job, prog)
        if not job.huge:
            mapping.advise(MADV_NOHUGEPAGE)
        try:
            for _ in range(job.repeat):
                _fill(mapping, job.size)
        except OSError as refusal:
            print(f"\n{prog}: {refusal.strerror}", file=sys.stderr)
            return 1
    return 0


def _mapped(job: Job, prog: str) -> Mapping:
    """The memory: *job*'s file, or anonymous, also where the file cannot be had, as in the original."""
    if job.file is not None:
        try:
            fd = os.open(job.file, os.O_RDWR | os.O_CLOEXEC)
        except OSError as refusal:
            print(f"{prog}: {job.file!r}: {refusal.strerror}: filling memory of no file", file=sys.stderr)
        else:
            try:
                held = os.fstat(fd).st_size
                if held < job.size:
                    raise ValueError(f"{job.file} has {held} bytes, not {job.size}: make it longer first")
                return Mapping(fd, job.size, flags=MAP_SHARED)
            finally:
                os.close(fd)
    return Mapping(None, job.size, flags=MAP_PRIVATE | MAP_ANONYMOUS)


def _bind(mapping: Mapping, job: Job, prog: str) -> None:
    """Set the policy; a refusal is told, and the memory is filled all the same."""
    try:
        _numa.mbind(mapping.address, mapping.mapped_size, MODES[job.policy], job.nodes)
    except OSError as refusal:
        cause = why_not(frozenset(job.nodes))
        why = f"mbind: {cause}" if cause else placement_error(refusal, "mbind").strerror
        print(f"{prog}: {why}: filling without a policy", file=sys.stderr)


def _fill(mapping: Mapping, size: int) -> None:
    with memoryview(mapping) as view:
        for start in range(0, size, PIECE):
            end = min(start + PIECE, size)
            mapping.populate(offset=start, length=end - start)  # a refusal is an error here, not a signal
            for at in range(start, end, len(PATTERN)):
                view[at : min(at + len(PATTERN), end)] = PATTERN[: end - at]
            print(".", end="", flush=True)
    print()
