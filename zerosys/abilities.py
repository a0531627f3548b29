"""Which calls of NUMA work here: each is made once, on a page of its own and an allowed node."""

from __future__ import annotations

import errno
import mmap
import os
import re
import threading

from zerosys import _numa
from zerosys.machine import topology
from zerosys.numa_maps import read_numa_maps
from zerosys.record import Record
from zerosys.refusal import beside_the_profile, filtered, may_move_all

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal


class Capability(Record):
    """Whether a call works here; true where it does.

    ``cause`` of a refusal, as far as it was checked: "seccomp" (a filter), "capability" (a right that
    this thread lacks), "kernel" (too old), "build" (made without it), "other". ``errno`` is
    the kernel's answer, 0 where it works, ``remedy`` what helps, in words.
    """

    name: str
    works: bool
    errno: int = 0
    cause: Literal["", "seccomp", "capability", "kernel", "build", "other"] = ""
    remedy: str = ""

    def __bool__(self) -> bool:
        return self.works


class _Call(Record):
    """A call that is tried: its system call, the first kernel that has it, the right it takes."""

    name: str
    trial: Callable[[int, int], object]
    syscall: str
    since: tuple[int, int] = (2, 6)
    right: str = ""


def _policy_again(node: int, page: int) -> None:
    _numa.set_mempolicy(_numa.MPOL_BIND, [node])
    _numa.set_mempolicy(_numa.MPOL_DEFAULT)


def _home(node: int, page: int) -> None:
    _numa.mbind(page, mmap.PAGESIZE, _numa.MPOL_BIND, [node])
    _numa.set_mempolicy_home_node(page, mmap.PAGESIZE, node)


def _bound(mode: int) -> Callable[[int, int], object]:
    return lambda node, page: _numa.mbind(page, mmap.PAGESIZE, mode, [node])


def _moved(flag: int) -> Callable[[int, int], object]:
    return lambda node, page: _numa.move_pages(0, [page], [node], flag)


def _asked(node: int, page: int) -> None:
    _numa.move_pages(0, [page])


def _migrated(node: int, page: int) -> None:
    _numa.migrate_pages(0, [node], [node])


def _pinned(node: int, page: int) -> None:
    os.sched_setaffinity(0, os.sched_getaffinity(0))


def _read_back(node: int, page: int) -> None:
    _numa.get_mempolicy()


def _looked(node: int, page: int) -> None:
    next(iter(read_numa_maps(0)), None)


_MANY, _WEIGHTED = _numa.MPOL_PREFERRED_MANY, _numa.MPOL_WEIGHTED_INTERLEAVE
_CALLS = (
    _Call(name="get_mempolicy", syscall="get_mempolicy", trial=_read_back),
    _Call(name="set_mempolicy", syscall="set_mempolicy", trial=_policy_again),
    _Call(name="mbind", syscall="mbind", trial=_bound(_numa.MPOL_BIND)),
    _Call(name="preferred many", syscall="mbind", trial=_bound(_MANY), since=(5, 15)),
    _Call(name="weighted interleave", syscall="mbind", trial=_bound(_WEIGHTED), since=(6, 9)),
    _Call(name="set_mempolicy_home_node", syscall="set_mempolicy_home_node", trial=_home, since=(5, 17)),
    _Call(name="page lookup", syscall="move_pages", trial=_asked),
    _Call(name="move_pages", syscall="move_pages", trial=_moved(_numa.MPOL_MF_MOVE)),
    _Call(
        name="move shared pages",
        syscall="move_pages",
        trial=_moved(_numa.MPOL_MF_MOVE_ALL),
        right="CAP_SYS_NICE",
    ),
    _Call(name="migrate_pages", syscall="migrate_pages", trial=_migrated),
    _Call(name="sched_setaffinity", syscall="sched_setaffinity", trial=_pinned),
    _Call(name="numa_maps", syscall="openat", trial=_looked),
)


def capabilities() -> dict[str, Capability]:
    """Make each call of NUMA once, and tell by name which work here and why others do not.

    The calls are made by a thread of their own on a page of their own, so that nothing of the
    caller's changes; those that need a node take one that this thread may use. Raises what
    keeps it from trying, such as MemoryError.
    """
    found: dict[str, Capability] = {}
    failed: list[BaseException] = []
    prober = threading.Thread(target=_probe, args=(found, failed), name="zerosys-capabilities")
    prober.start()
    prober.join()
    if failed:  # half an answer is none
        raise failed[0]
    return found


def _probe(found: dict[str, Capability], failed: list[BaseException]) -> None:
    try:
        node = min(topology().allowed_nodes, default=0)
        with mmap.mmap(-1, mmap.PAGESIZE) as page:
            page[0] = 1
            address, _ = _numa.extent_of(page)
            for call in _CALLS:
                found[call.name] = _tried(call, node, address)
    except BaseException as error:
        failed.append(error)


def _tried(call: _Call, node: int, page: int) -> Capability:
    try:
        call.trial(node, page)
    except OSError as refusal:
        cause, remedy = _cause(call, refusal.errno or 0)
        return Capability(name=call.name, works=False, errno=refusal.errno or 0, cause=cause, remedy=remedy)
    return Capability(name=call.name, works=True)


def _cause(
    call: _Call, number: int
) -> tuple[Literal["", "seccomp", "capability", "kernel", "build", "other"], str]:
    if number in (errno.ENOSYS, errno.EINVAL) and _kernel() < call.since:
        return "kernel", f"needs Linux {call.since[0]}.{call.since[1]}; this is {os.uname().release}"
    if number == errno.EPERM and call.right and not may_move_all():
        return "capability", f"run with {call.right} (docker run --cap-add SYS_NICE)"
    if number in (errno.ENOSYS, errno.EPERM) and filtered():
        beside = beside_the_profile(call.syscall)
        return "seccomp", f"allow {call.syscall} in the seccomp profile of this process{beside}"
    if number == errno.EPERM and call.right:
        return "capability", f"{call.right} of a user namespace does not count: have it in the first one"
    if number == errno.ENOSYS:
        return "build", "this kernel was built without it"
    return "other", os.strerror(number)


def _kernel() -> tuple[int, int]:
    numbers = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
