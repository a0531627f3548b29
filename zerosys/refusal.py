"""Why the kernel refused a NUMA call, as far as it can be checked, and what to do about it."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import warnings

from zerosys.errors import PlacementError, PlacementWarning
from zerosys.sysfs import capable, thread_status

CAP_SYS_NICE = 23
# What the default profiles of container runtimes open to it: not move_pages(2) and migrate_pages(2).
_OPENED_BY_SYS_NICE = {"get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"}


def filtered() -> bool:
    """Whether a seccomp filter stands between this thread and the kernel."""
    return thread_status().get("Seccomp") == "2"


def may_move_all() -> bool:
    """Whether this thread may move pages that other mappings share: CAP_SYS_NICE."""
    return capable(CAP_SYS_NICE)


def beside_the_profile(*calls: str) -> str:
    """What else has a container runtime allow *calls*, as the end of a sentence about its profile."""
    if _OPENED_BY_SYS_NICE.issuperset(calls):
        return ", or add CAP_SYS_NICE, with which runtimes allow it (docker run --cap-add SYS_NICE)"
    return " (docker run --security-opt seccomp=PROFILE.json): CAP_SYS_NICE alone does not open it"


def remedy(refusal: OSError, *calls: str) -> str:
    """The cause of *refusal* that was checked, with what has *calls* allowed; empty where none was found."""
    if refusal.errno not in (errno.EPERM, errno.ENOSYS):
        return ""
    if filtered():
        return (
            f"a seccomp filter guards this process, as container runtimes set by default: allow "
            f"{' and '.join(calls)} in its profile{beside_the_profile(*calls)}"
        )
    if refusal.errno == errno.ENOSYS and not os.path.isdir("/sys/devices/system/node"):
        return "this kernel was built without NUMA, so all memory is on one node: ask for no placement"
    if refusal.errno == errno.EPERM and not may_move_all():
        return "CAP_SYS_NICE is missing: run with it, or move only pages of one mapping"
    return ""


def placement_error(refusal: OSError, call: str) -> PlacementError:
    """The PlacementError for *refusal* of *call*, with the remedy where the cause is known.

    What comes before *call*, such as a look at what is allowed, may be what was refused: *refusal* names it.
    """
    refused, colon, _ = (refusal.strerror or "").partition(":")
    if not colon or not refused.isidentifier():
        refused = call
    why = remedy(refusal, *dict.fromkeys((refused, call)))
    text = f"{refused}: {os.strerror(refusal.errno or 0)}"
    return PlacementError(refusal.errno, f"{text}; {why}" if why else text)


def warn(text: str) -> None:
    """Warn of a placement that is not what was asked, at the line outside zerosys that asked."""
    inside = (os.path.dirname(__file__) + os.sep, contextlib.__file__)
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(PlacementWarning(text), stacklevel=level)
