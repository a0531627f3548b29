"""Run a command under a kernel that refuses: a seccomp filter answers an errno for chosen calls.

    refused([Refuse("memfd_create", errno.ENOSYS)], "import zerosys; ...")

The filter is installed before the interpreter starts (exec keeps it), so that what
a module does when it is loaded is refused too. `python seccomp.py RULES COMMAND...` is the child.
"""

import ctypes
import json
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06  # the classic BPF instructions used
NR, ARCH, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

# audit's number of the architecture, and a column of CALLS
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
CALLS = {
    "access": (21, 48),
    "brk": (12, 214),
    "clock_nanosleep": (230, 115),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close": (3, 57),
    "copy_file_range": (326, 285),
    "exit": (60, 93),
    "faccessat": (269, 48),
    "fallocate": (285, 47),
    "fchmod": (91, 52),
    "fcntl": (72, 25),
    "flock": (73, 32),
    "fstat": (5, 80),
    "fstatfs": (138, 44),
    "ftruncate": (77, 46),
    "futex": (202, 98),
    "get_mempolicy": (239, 236),
    "getcpu": (309, 168),
    "getdents64": (217, 61),
    "getpid": (39, 172),
    "getpriority": (140, 141),
    "getrandom": (318, 278),
    "gettid": (186, 178),
    "ioctl": (16, 29),
    "linkat": (265, 37),
    "lseek": (8, 62),
    "madvise": (28, 233),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "migrate_pages": (256, 238),
    "mincore": (27, 232),
    "mlock": (149, 228),
    "mlock2": (325, 284),
    "mmap": (9, 222),
    "move_pages": (279, 239),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "newfstatat": (262, 79),
    "openat": (257, 56),
    "poll": (7, 73),
    "ppoll": (271, 73),
    "prctl": (157, 167),
    "pread64": (17, 67),
    "preadv2": (327, 286),
    "pwritev2": (328, 287),
    "read": (0, 63),
    "readlink": (89, 78),
    "readlinkat": (267, 78),
    "recvmsg": (47, 212),
    "rseq": (334, 293),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_setaffinity": (203, 122),
    "sched_yield": (24, 124),
    "seccomp": (317, 277),
    "sendfile": (40, 71),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "set_robust_list": (273, 99),
    "splice": (275, 76),
    "statfs": (137, 43),
    "statx": (332, 291),
    "tee": (276, 77),
    "unlink": (87, 35),
    "unlinkat": (263, 35),
    "vmsplice": (278, 75),
}
POLICY_CALLS = ("get_mempolicy", "set_mempolicy", "mbind", "move_pages", "migrate_pages")


@dataclass(frozen=True)
class Refuse:
    """Answer *errno* to *call*: always, or where argument *arg* has one of *bits* or *equals* a value."""

    call: str
    errno: int
    arg: int | None = None
    bits: int | None = None
    equals: int | None = None


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def program(rules: Iterable[Refuse], machine: str) -> bytes:
    """The filter as struct sock_filter entries; a call of no rule, or of a foreign ABI, is allowed."""
    arch, column = ARCHITECTURES[machine]
    steps = _step(LOAD, ARCH) + _step(EQUAL, arch, 1, 0) + _step(RETURN, ALLOW)
    for rule in rules:
        answer = _step(RETURN, ERRNO | rule.errno)
        test = b""
        if rule.arg is not None:
            # The low word is first: both machines are little-endian; flags and advices fit in it.
            test = _step(LOAD, ARGUMENTS + 8 * rule.arg)
            test += (
                _step(ANY_BIT, rule.bits, 0, 1)
                if rule.bits is not None
                else _step(EQUAL, rule.equals or 0, 0, 1)
            )
        body = test + answer
        steps += _step(LOAD, NR) + _step(EQUAL, CALLS[rule.call][column], 0, len(body) // 8) + body
    return steps + _step(RETURN, ALLOW)


def install(rules: Iterable[Refuse]) -> None:
    """Refuse from now on, in this thread and in all that it starts. There is no way back."""
    code = program(rules, platform.machine())

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    for request in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, None, 0, 0)):
        values = [ctypes.c_ulong(v or 0) for v in request[1:]]
        if request[0] == PR_SET_SECCOMP:
            values[1] = ctypes.byref(Program(len(code) // 8, code))
        if libc.prctl(request[0], *values):
            raise OSError(ctypes.get_errno(), "prctl: no seccomp filter can be installed")


def refused(rules: Sequence[Refuse], code: str | Sequence[str], **options) -> subprocess.CompletedProcess:
    """Run *code* (Python, or a command as a list) under *rules*; capture what it says."""
    command = [sys.executable, "-c", code] if isinstance(code, str) else list(code)
    text = json.dumps([asdict(rule) for rule in rules])
    return subprocess.run(
        [sys.executable, __file__, text, *command],
        capture_output=True, text=True, timeout=60, **options,
    )  # fmt: skip


if __name__ == "__main__":
    install([Refuse(**rule) for rule in json.loads(sys.argv[1])])
    os.execvp(sys.argv[2], sys.argv[2:])
