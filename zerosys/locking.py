"""Why memory could not be locked, in numbers."""

from __future__ import annotations

import errno
import resource

from zerosys.sizes import show_size
from zerosys.sysfs import capable

_CAP_IPC_LOCK = 14


def may_lock_all() -> bool:
    """Whether CAP_IPC_LOCK is effective here: owning it in another set does not count."""
    return capable(_CAP_IPC_LOCK)


def explained(refusal: OSError, asked: int) -> OSError:
    """*refusal* of mlock, with what was asked, the limit and the capability where they are the cause."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limited = limit != resource.RLIM_INFINITY and not may_lock_all()
    if refusal.errno not in (errno.ENOMEM, errno.EPERM, errno.EAGAIN) or not limited:
        return refusal
    return OSError(
        refusal.errno,
        f"{refusal.strerror}; {show_size(asked)} were asked for, RLIMIT_MEMLOCK is {show_size(limit)} for "
        "all that the process locks, and CAP_IPC_LOCK is not effective: raise the limit (ulimit -l, "
        "LimitMEMLOCK=, docker run --ulimit memlock=-1), or lock='try'",
    )
