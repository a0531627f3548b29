"""How much memory a pool may pin, and every reason why it may not have more."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator

from zerosys.limits import Headroom, Limit
from zerosys.locking import may_lock_all
from zerosys.machine import topology
from zerosys.sizes import show_size
from zerosys.sysfs import sizes


class Budget:
    """The limits on pinned memory of *nodes* (None: of the machine): read afresh at each question.

    *limit* are bytes for the pool, or None. *share* is the part of the nodes' memory that the pool
    may hold: pinned memory cannot be swapped, moved or reclaimed, and others live on what is left.
    """

    def __init__(self, nodes: frozenset[int] | None, limit: int | None, share: float) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share must be more than 0 and at most 1, not {share}")
        self.nodes, self.limit, self.share = nodes, limit, share

    def require(self, size: int, held: int) -> None:
        """Return if a pool that holds *held* bytes may pin *size* more.

        Raises OSError(ENOMEM) that names each limit that is in the way, its room, and the remedy.
        """
        short = [limit for limit in self._limits(size, held) if limit.available < size]
        if short:
            reasons = "; ".join(
                f"{limit.what} leaves {show_size(max(limit.available, 0))}: {limit.remedy}" for limit in short
            )
            raise OSError(
                errno.ENOMEM, f"{show_size(size)} more to pin, beside {show_size(held)}, but {reasons}"
            )

    def _limits(self, size: int, held: int) -> Iterator[Limit]:
        if self.limit is not None:
            yield Limit(
                f"the pool's budget of {show_size(self.limit)}",
                self.limit - held,
                "trim(), or a larger budget=",
            )
        whole = self._memory()
        if whole:
            yield Limit(
                f"the share of {self.share:.0%} of {show_size(whole)}",
                int(whole * self.share) - held,
                "a larger share=, or another node",
            )
        allowed, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if allowed != resource.RLIM_INFINITY and not may_lock_all():
            yield Limit(
                f"RLIMIT_MEMLOCK of {show_size(allowed)}",
                allowed - _locked(),
                "raise it (ulimit -l, LimitMEMLOCK=, docker run --ulimit memlock=-1)",
            )
        yield from Headroom(self.nodes).limits(size)

    def _memory(self) -> int:
        """The bytes that the nodes have in all."""
        nodes = topology().nodes
        return sum(
            node.memory_total for node in nodes.values() if self.nodes is None or node.id in self.nodes
        )


def _locked() -> int:
    """What this process has locked and pinned already."""
    told = sizes("/proc/self/status")
    return told.get("VmLck", 0) + told.get("VmPin", 0)
