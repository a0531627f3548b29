"""Whether the kernel's calls work here, by making each of them on something small."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from zerosys.doctor import trials
from zerosys.doctor.finding import Finding, State
from zerosys.refusal import filtered


class Call(NamedTuple):
    """A call that is tried, the first kernel that has it, and how much is lost without it."""

    name: str
    syscall: str
    since: tuple[int, int]
    trial: Callable[[], None]
    state: State
    lost: str


CALLS = (
    Call("splice", "splice", (2, 6), trials.splice, "broken", "pumps copy each byte"),
    Call("tee", "tee", (2, 6), trials.tee, "limited", "fan-out copies each byte"),
    Call("vmsplice", "vmsplice", (2, 6), trials.vmsplice, "limited", "memory goes into pipes by a copy"),
    Call("sendfile", "sendfile", (2, 6), trials.sendfile, "limited", "files go out through a pipe"),
    Call(
        "copy_file_range",
        "copy_file_range",
        (4, 5),
        trials.copy_file_range,
        "limited",
        "files are copied by reading",
    ),
    Call("memfd_create", "memfd_create", (3, 17), trials.memfd, "broken", "nameless regions are not sealed"),
    Call(
        "MADV_POPULATE_WRITE",
        "madvise",
        (5, 14),
        trials.populate,
        "limited",
        "each page is touched by a loop",
    ),
    Call("mmap of a mirror", "mmap", (2, 6), trials.mirror, "broken", "there are no rings"),
    Call(
        "O_TMPFILE and linkat in /dev/shm",
        "linkat",
        (3, 11),
        trials.publish,
        "broken",
        "there are no named regions",
    ),
    Call(
        "pidfd_open", "pidfd_open", (5, 3), trials.pidfd, "limited", "a process is known by its number alone"
    ),
    Call("OFD locks", "fcntl", (3, 15), trials.ofd_lock, "broken", "a ring cannot tell a dead peer"),
)


def check(calls: tuple[Call, ...] = CALLS) -> list[Finding]:
    """Make each call; one finding each."""
    return [_tried(call) for call in calls]


def _tried(call: Call) -> Finding:
    try:
        call.trial()
    except OSError as refusal:
        evidence = f"{errno.errorcode.get(refusal.errno or 0, refusal.errno)}: without it {call.lost}"
        return Finding(call.name, call.state, evidence, _remedy(refusal, call))
    return Finding(call.name, "ok", "a real call succeeded")


def kernel() -> tuple[int, int]:
    """The version of the running kernel: (6, 12)."""
    numbers = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _remedy(refusal: OSError, call: Call) -> str:
    if kernel() < call.since:
        return f"run Linux {call.since[0]}.{call.since[1]} or newer; this is {os.uname().release}"
    if refusal.errno in (errno.ENOSYS, errno.EPERM) and filtered():
        return (
            f"allow {call.syscall} in the seccomp profile that guards this process"
            " (docker run --security-opt seccomp=PROFILE.json)"
        )
    if refusal.errno == errno.ENOSYS:
        return f"run a kernel that was built with {call.name}"
    if refusal.errno in (errno.EMFILE, errno.ENFILE):
        return "close descriptors, or raise the limit: ulimit -n 65536"
    if refusal.errno in (errno.ENOSPC, errno.ENOMEM):
        return "free memory, or enlarge /dev/shm: mount -o remount,size=50% /dev/shm"
    trace = f"strace -f -e trace={call.syscall} zerosys doctor"
    return f"see what the kernel was asked: {trace} ({refusal.strerror})"
