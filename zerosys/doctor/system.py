"""What the doctor finds about the rest of the system: pipes, descriptors, log-out, memfd rules."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from zerosys._splice import pipe_capacity, set_pipe_capacity
from zerosys.doctor.finding import Finding
from zerosys.doctor.reading import number
from zerosys.logout import takes_names
from zerosys.sizes import show_size

_WISH = 1 << 20  # the pipe that a pump wishes for


def check(root: Path) -> list[Finding]:
    """The findings; pipes and descriptors are tried in this process."""
    return [_pipes(root), _descriptors(), _logout(root), _memfd_rules(root)]


def _pipes(root: Path) -> Finding:
    largest = number(root / "proc/sys/fs/pipe-max-size") or _WISH
    soft = number(root / "proc/sys/fs/pipe-user-pages-soft") or 0
    got = _wished(min(_WISH, largest))
    budget = f"{show_size(soft * os.sysconf('SC_PAGESIZE'))} for all pipes of a user" if soft else "no budget"
    evidence = f"a pipe got {show_size(got)}; at most {show_size(largest)} each, {budget}"
    if got >= _WISH:
        return Finding("pipes", "ok", evidence)
    remedy = (
        f"sysctl fs.pipe-max-size={_WISH}"
        if largest < _WISH
        else "close pipes of this user, or sysctl fs.pipe-user-pages-soft=0"
    )
    return Finding("pipes", "limited", evidence, remedy)


def _wished(size: int) -> int:
    """The capacity that a fresh pipe has after asking for *size*."""
    ends = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            set_pipe_capacity(ends[0], size)
        except OSError:
            pass  # the user's budget is spent: the finding is what the pipe has
        return pipe_capacity(ends[0])
    finally:
        for end in ends:
            os.close(end)


def _descriptors() -> Finding:
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = limit >= 1024 or limit == resource.RLIM_INFINITY
    return Finding(
        "descriptors",
        "ok" if enough else "limited",
        f"at most {limit} in a process, which may raise that to {hard}",
        None if enough else f"ulimit -n {hard}",
    )


def _logout(root: Path) -> Finding:
    taken = takes_names(root=root)
    if taken is None:
        return Finding("names at log-out", "ok", "nothing removes them")
    danger, _, remedy = taken.partition(": ")
    return Finding("names at log-out", "limited", danger, remedy)


def _memfd_rules(root: Path) -> Finding:
    rule = number(root / "proc/sys/vm/memfd_noexec")
    if rule is None:
        return Finding("vm.memfd_noexec", "absent", "this kernel has no rule for executable memfds")
    return Finding("vm.memfd_noexec", "ok", f"{rule}: zerosys asks for memory that cannot be executed")
