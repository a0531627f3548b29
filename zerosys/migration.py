"""Moving what a whole process has from some nodes to others."""

from __future__ import annotations

import errno
from operator import index

from zerosys import _numa
from zerosys.errors import PlacementError
from zerosys.nodes import format, parse_list
from zerosys.policy import why_not
from zerosys.refusal import may_move_all, placement_error
from zerosys.selection import node_set
from zerosys.sysfs import fields

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from typing import SupportsIndex

    from zerosys.nodes import Spec


def migrate(pid: SupportsIndex, old: Spec, new: Spec) -> int:
    """Move every page that process *pid* (0: this one) has on the nodes *old* to *new*; how many stayed.

    The n-th node of *old* goes to the n-th of *new*. Pages that other processes have mapped
    too move only with CAP_SYS_NICE, and stay without a word otherwise: placement(pid) tells
    where all are now. Raises ProcessLookupError where there is no such process,
    PlacementError for a node that does not exist, EPERM for another user's process or one
    whose cpuset has not all of *new* (the text says which), EINVAL where none of *new* can
    be had.
    The kernel is not to be interrupted in it, about a second a GiB. See migrate_pages(2).
    """
    whose = index(pid)
    from_nodes, to_nodes = node_set(old), node_set(new)
    try:
        return _numa.migrate_pages(whose, from_nodes, to_nodes)
    except ProcessLookupError:
        raise ProcessLookupError(errno.ESRCH, f"migrate_pages: there is no process {whose}") from None
    except OSError as refusal:
        raise _explained(refusal, whose, to_nodes) from refusal


def _explained(refusal: OSError, pid: int, new: frozenset[int]) -> OSError:
    who = f"process {pid}" if pid else "this process"
    if refusal.errno == errno.EINVAL:
        why = why_not(new) or _without_memory(pid) or f"the kernel allows {who} none of node {format(new)}"
        return PlacementError(errno.EINVAL, f"migrate_pages: {why}")
    if refusal.errno not in (errno.EPERM, errno.ENOSYS):
        return refusal
    allowed = _mems_allowed(pid)
    if refusal.errno == errno.EPERM and allowed is not None and not new <= allowed:
        return PlacementError(
            errno.EPERM,
            f"migrate_pages: node {format(new - allowed)} is not allowed by the cpuset of {who} "
            f"(allowed: {format(allowed)}): name others, or widen cpuset.mems of its cgroup",
        )
    if refusal.errno == errno.EPERM and not may_move_all():
        return PlacementError(
            errno.EPERM,
            f"migrate_pages: {who} belongs to another user: be that user, or have CAP_SYS_NICE",
        )
    return placement_error(refusal, "migrate_pages")


def _without_memory(pid: int) -> str | None:
    told = fields(f"/proc/{pid or 'self'}/status")
    if not told or "VmSize" in told:
        return None
    state = told.get("State", "state unknown")
    return f"process {pid} has no memory ({state}): it is a zombie, or a thread of the kernel"


def _mems_allowed(pid: int) -> frozenset[int] | None:
    told = fields(f"/proc/{pid or 'self'}/status").get("Mems_allowed_list")
    return None if told is None else parse_list(told)
