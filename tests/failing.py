"""Walk a piece of work with a failure at every system call that it makes, one at a time.

The child's filter hands every call to its parent (seccomp's user notifications, Linux 5.5), which lets it
go on or answers an errno. Nothing has to be known of the calls in advance: the child does its work once
with the first call refused, once with the second, until there is no such call any more.

    walk(Work) -> Report: what was left, and what became of it

`python failing.py MODULE CLASS WHICH ERRNO...` is the pair of processes. Before it starts, /dev/shm is a
small tmpfs of its own, so that every page of it can be counted.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
import importlib
import json
import mmap
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path

from counts import descriptors, mappings
from seccomp import ALLOW, ARCHITECTURES, ARGUMENTS, CALLS, EQUAL, LOAD, NR, RETURN, _step

NOTIFY, NEW_LISTENER, SET_FILTER, NO_NEW_PRIVS = 0x7FC00000, 8, 1, 38
RECV, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1  # ioctls of a listener, and an answer's flag
COLUMN = ARCHITECTURES[platform.machine()][1]
NUMBERS = {name: numbers[COLUMN] for name, numbers in CALLS.items()}
WORDS = {number: name for name, number in NUMBERS.items()}
POOLS = Path("/sys/kernel/mm/hugepages")
ERRNOS = (errno.EPERM, errno.ENOMEM, errno.EMFILE)

# What the interpreter and the C library call for themselves, or what cannot fail: close() has closed
# whatever it answers, and munmap() of a whole mapping always succeeds.
SPARED = {
    NUMBERS[name]
    for name in (
        "close", "munmap", "brk", "futex", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "exit",
        "sched_yield", "clock_nanosleep", "set_robust_list", "rseq", "gettid", "getpid",
    )
}  # fmt: skip

# Protection and flags with which the interpreter maps memory for its objects, when it happens to need some.
HEAP = (mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

# A call that nobody makes, in which the child speaks to its parent.
MARK = NUMBERS["getpriority"]
BEGIN, END, WHICH = 0x5A53, 0x5A54, 0x5A55


class Work:
    """One piece of work. Each method but work() runs undisturbed."""

    calls: frozenset[str] = frozenset()  # it makes these, and cannot succeed if one of them is refused

    def prepare(self) -> None:
        """What must be there before."""

    def work(self) -> object:
        """The calls of this are refused, one at a time."""
        raise NotImplementedError

    def check(self, made: object) -> None:
        """What work() returned is good; give it back."""

    def clear(self) -> None:
        """Give back what prepare() made, after success or failure; everything must be gone then."""


@dataclass
class Report:
    """What a walk saw: ``wrong`` has a sentence for each fault, the rest counts refusals by call."""

    wrong: list[str] = field(default_factory=list)
    raised: dict[str, int] = field(default_factory=dict)
    survived: dict[str, int] = field(default_factory=dict)


def private() -> list[str]:
    """The start of a command that may mount what nobody else sees."""
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]


def private_refusal() -> str | None:
    """Why this machine lets nobody mount in private, or None."""
    done = subprocess.run([*private(), "true"], capture_output=True, text=True)
    return done.stderr.strip() or None


def walk(
    work: type[Work], errnos: Collection[int] = ERRNOS, which: str = "every", timeout: float = 110
) -> Report:
    """Run *work*, a class of a module in this folder, with each call refused in turn, or each of its own."""
    words = [work.__module__, work.__name__, which, *map(str, errnos)]
    command = [*private(), sys.executable, __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return Report(**json.loads(done.stdout))


def judge(report: Report, work: type[Work]) -> None:
    """Fail unless every refusal left nothing, and each of the work's own calls stopped it."""
    assert report.wrong == []
    assert work.calls <= set(report.raised)
    assert work.calls.isdisjoint(report.survived), report.survived


# -- the parent -------------------------------------------------------------------------------


def ended(process: int) -> bool:
    """Whether the child has ended. It is left to be waited for, which before Linux 6.11 frees its filter."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def supervise(listener: int, own: Collection[int] | None, process: int) -> None:
    """Answer the calls of the child *process* until it has ended; refuse only *own* ones, if given."""
    target, number, seen, hit = 0, 0, 0, -1
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        ready = poll.poll(500)
        if not ready and not ended(process):
            continue
        if not ready or not ready[0][1] & select.POLLIN:
            return
        notice = bytearray(80)
        try:
            fcntl.ioctl(listener, RECV, notice)
        except FileNotFoundError:  # killed meanwhile
            continue
        ident, _, _, call, _ = struct.unpack_from("=QIIiI", notice)
        first, second, third, fourth = struct.unpack_from("=4Q", notice, 32)
        value, error, flags = 0, 0, CONTINUE
        if call == MARK and first in (BEGIN, END, WHICH):
            flags = 0
            if first == BEGIN:
                target, number, seen, hit = second & 0xFFFF, second >> 16, 0, -1
            value = (0, seen, hit + 1)[first - BEGIN]
            target = 0 if first == END else target
        elif call == NUMBERS["mmap"] and (third, fourth) == HEAP:
            pass
        elif target and (call in own if own else call not in SPARED):
            seen += 1
            if seen == target:
                hit, error, flags = call, -number, 0
        try:
            fcntl.ioctl(listener, SEND, struct.pack("=QqiI", ident, value, error, flags))
        except FileNotFoundError:
            pass


# -- the child --------------------------------------------------------------------------------


def say(word: int, value: int = 0) -> int:
    return 20 - os.getpriority(word, value)  # as the C library turns it round


def hand_over(control: socket.socket) -> None:
    """Have the other end of *control* asked about every call from now on, but about this hand-over."""
    code = _step(LOAD, NR) + _step(EQUAL, NUMBERS["sendmsg"], 0, 3)
    code += _step(LOAD, ARGUMENTS) + _step(EQUAL, control.fileno(), 0, 1) + _step(RETURN, ALLOW)
    code += _step(RETURN, NOTIFY)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    filter_ = Program(len(code) // 8, code)
    libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = libc.syscall(NUMBERS["seccomp"], SET_FILTER, NEW_LISTENER, ctypes.byref(filter_))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp: no listener")
    socket.send_fds(control, [b"x"], [listener])
    control.close()
    os.close(listener)


def held() -> dict[str, object]:
    """All that the process and its /dev/shm hold."""
    gc.collect()
    about = os.statvfs("/dev/shm")
    return {
        "descriptors": descriptors(),
        "mappings": mappings(),
        "threads": len(os.listdir("/proc/self/task")),
        "names": os.listdir("/dev/shm"),
        "free pages": about.f_bfree,
        "free inodes": about.f_ffree,
        "pool": {str(path): path.read_text() for path in POOLS.glob("*/*_hugepages")},
        "CPUs": sorted(os.sched_getaffinity(0)),
        "signals blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    }


def once(work: Work, target: int, number: int, before: dict[str, object], report: Report) -> bool:
    """Do it with the *target*-th call answered *number*; whether there was such a call."""
    work.prepare()
    error = made = None
    say(BEGIN, number << 16 | target)
    try:
        made = work.work()
    except BaseException as caught:
        error = caught.with_traceback(None)
        error.__context__ = error.__cause__ = None
    seen = say(END)
    hit = say(WHICH) - 1
    where = f"call {target}, {WORDS.get(hit, hit)}, answered {errno.errorcode[number]}"
    if error is None:
        try:
            work.check(made)
        except Exception as bad:
            report.wrong.append(f"{where}: succeeded, but {bad!r}")
        made = None
    elif not isinstance(error, (OSError, MemoryError)) or not str(error):
        report.wrong.append(f"{where}: raised {error!r}")
    elif isinstance(error, OSError) and not (error.errno and error.strerror):
        report.wrong.append(f"{where}: raised {error!r}, without errno")
    work.clear()
    after = held()
    for what in before:
        if before[what] != after[what]:
            report.wrong.append(f"{where}: {what} {before[what]} -> {after[what]} (after {error!r})")
    if seen >= target:
        tally = report.survived if error is None else report.raised
        call = str(WORDS.get(hit, hit))
        tally[call] = tally.get(call, 0) + 1
    return seen >= target


def child(work: Work, errnos: Collection[int]) -> Report:
    warnings.simplefilter("ignore")  # as good as success: what is left is looked at all the same
    report = Report()
    before = held()
    for number in errnos:
        target = 1
        while once(work, target, number, before, report) and len(report.wrong) < 20:
            target += 1
    return report


def main() -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", "/dev/shm"], check=True)
    work = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])()
    here, there = socket.socketpair()
    process = os.fork()
    if not process:
        here.close()
        for _ in range(2):  # everything imported, every cache warm
            work.prepare()
            work.check(work.work())
            work.clear()
        hand_over(there)
        print(json.dumps(asdict(child(work, [int(word) for word in sys.argv[4:]]))), flush=True)
        os._exit(0)
    there.close()
    _, fds, _, _ = socket.recv_fds(here, 1, 1)
    if fds:
        supervise(fds[0], {NUMBERS[call] for call in work.calls} if sys.argv[3] == "own" else None, process)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


if __name__ == "__main__":
    main()
