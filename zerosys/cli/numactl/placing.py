"""What sets of nodes and CPUs on a command line mean on this machine, and placing this process."""

from __future__ import annotations

import errno
import os

from zerosys import _numa, nodes
from zerosys.errors import PlacementError
from zerosys.machine import topology

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable


class Sets:
    """Reads sets against the machine, and against what this process might use when it was made.

    *whole* (``--all``) counts what the affinity and the cpuset leave out, too; *allowed_only*
    drops from a set what they leave out, and *lenient* whatever cannot be had. ``remarks``
    gathers what was dropped so. Raises PlacementError where a set has nothing left.
    """

    def __init__(self, whole: bool = False, allowed_only: bool = False, lenient: bool = False) -> None:
        self.machine = topology()
        self.whole, self.allowed_only, self.lenient = whole, allowed_only, lenient
        self.remarks: list[str] = []
        self._last: str | None = None

    def memory(self, text: str) -> frozenset[int]:
        """The nodes that *text* names for memory: these need memory, and to be allowed."""
        machine = self.machine
        everything = frozenset(machine.nodes) if self.whole else machine.allowed_nodes
        everything = frozenset(id for id in everything if machine.nodes[id].kind != "device")
        known = frozenset(machine.nodes) if self.whole or self.allowed_only else machine.allowed_nodes
        chosen = self._nodes(text, known, everything)
        return self.usable_memory(chosen, quiet=text == "all")

    def usable_memory(self, chosen: frozenset[int], quiet: bool = False) -> frozenset[int]:
        """Those of *chosen* on which this process may have memory."""
        usable = self.machine.nodes_with_memory if self.whole else self.machine.allowed_nodes
        return self._kept(chosen, usable, _why_no_memory, quiet or self.allowed_only)

    def cpus_of(self, text: str) -> frozenset[int]:
        """The CPUs of the nodes that *text* names: these need CPUs, and no memory."""
        machine = self.machine
        running = machine.nodes_with_cpus
        # As with numactl, "all" leaves out a node whose memory the cpuset forbids.
        barred = machine.nodes_with_memory - machine.allowed_nodes
        everything = running if self.whole else running - barred
        chosen = self._kept(self._nodes(text, frozenset(machine.nodes), everything), running, self._why_bare)
        return self.usable_cpus(frozenset().union(*(machine.nodes[node].online_cpus for node in chosen)))

    def cpus_near(self, chosen: frozenset[int]) -> frozenset[int]:
        """The CPUs of the nodes *chosen*, or of those nearest to one that has none."""
        known = self._kept(chosen, frozenset(self.machine.nodes), self._why_bare)
        near: frozenset[int] = frozenset().union(*map(self.machine.nearest_cpus, known))
        if not near:
            raise PlacementError(errno.EINVAL, self._why_bare(known))
        return self.usable_cpus(near)

    def usable_cpus(self, cpus: frozenset[int]) -> frozenset[int]:
        """Those of *cpus* that --allowed-only lets pass: all, without it."""
        allowed = self.machine.allowed_cpus if self.allowed_only else cpus
        return self._kept(cpus, allowed, self._why_not_ours, quiet=True)

    def cpus(self, text: str) -> frozenset[int]:
        """The CPUs that *text* names: those that this process runs on, or with --all any."""
        online, allowed = self.machine.online_cpus, self.machine.allowed_cpus
        usable = online if self.whole else allowed
        if self.lenient or self.allowed_only:
            chosen = nodes.parse(text, None if self.lenient else online, what="CPU", everything=usable)
            return self._kept(chosen, usable, self._why_not_ours, quiet=self.allowed_only)
        try:
            return nodes.parse(text, usable, what="CPU")
        except PlacementError:
            chosen = nodes.parse(text, online, what="CPU")
        raise PlacementError(errno.EINVAL, self._why_not_ours(chosen - usable))

    def _nodes(self, text: str, known: frozenset[int], everything: frozenset[int]) -> frozenset[int]:
        if text == "same":
            if self._last is None:
                raise ValueError('"same" repeats the nodes that were named before, and none were')
            text = self._last
        self._last = text
        if self.lenient:
            return nodes.parse(text, everything=everything, select=_selected)
        try:
            return nodes.parse(text, known, everything=everything, select=_selected)
        except PlacementError:
            # Of nodes that are there, but not for us, the cause is another.
            chosen = nodes.parse(text, frozenset(self.machine.nodes), everything=everything, select=_selected)
            if chosen <= known:
                raise
        raise PlacementError(errno.EINVAL, _why_no_memory(chosen - known))

    def _kept(
        self,
        chosen: frozenset[int],
        usable: frozenset[int],
        why: Callable[[frozenset[int]], str],
        quiet: bool = False,
    ) -> frozenset[int]:
        dropped = chosen - usable
        if dropped == chosen:
            raise PlacementError(errno.EINVAL, why(dropped))
        if dropped and not quiet:
            self.remarks.append(why(dropped))
        return chosen & usable

    def _why_bare(self, bare: frozenset[int]) -> str:
        absent = bare - frozenset(self.machine.nodes)
        if absent:
            known = nodes.format(self.machine.nodes)
            return f"node {nodes.format(absent)} does not exist (this machine's nodes: {known})"
        running = nodes.format(self.machine.nodes_with_cpus)
        return f"node {nodes.format(bare)} has no CPUs that are online (nodes with CPUs: {running})"

    def _why_not_ours(self, cpus: frozenset[int]) -> str:
        away = cpus - self.machine.online_cpus
        if away:
            online = nodes.format(self.machine.online_cpus)
            return f"CPU {nodes.format(away)} is not online (online: {online})"
        return (
            f"CPU {nodes.format(cpus)} is not among those that this process may run on "
            f"({nodes.format(self.machine.allowed_cpus)}): --all goes beyond its affinity, as far as "
            "the cpuset lets it"
        )


def _why_no_memory(chosen: frozenset[int]) -> str:
    from zerosys.policy import why_not

    return why_not(chosen)


def _selected(selector: str) -> frozenset[int]:
    from zerosys.locality import node_of

    return frozenset([node_of(selector).__index__()])


def run_on(cpus: frozenset[int]) -> frozenset[int]:
    """Pin this process; the CPUs that it got, since the kernel drops what the cpuset forbids."""
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as refusal:
        if refusal.errno != errno.EINVAL:
            from zerosys.refusal import placement_error

            raise placement_error(refusal, "sched_setaffinity") from refusal
        why = f"sched_setaffinity: CPU {nodes.format(cpus)} is not allowed by this process's cpuset"
        raise PlacementError(errno.EINVAL, why) from refusal
    return frozenset(os.sched_getaffinity(0))


def set_policy(mode: int, members: frozenset[int]) -> None:
    """Give this process's memory a policy. Raises PlacementError with the cause and the remedy."""
    try:
        try:
            _numa.set_mempolicy(mode, members)
        except OSError as refusal:
            if refusal.errno != errno.EINVAL or not mode & _numa.MPOL_F_NUMA_BALANCING:
                raise
            _numa.set_mempolicy(mode & ~_numa.MPOL_F_NUMA_BALANCING, members)  # before Linux 5.12
    except OSError as refusal:
        raise _explained(refusal, mode, members) from refusal


def _explained(refusal: OSError, mode: int, members: frozenset[int]) -> OSError:
    from zerosys.refusal import placement_error

    if refusal.errno != errno.EINVAL:
        return placement_error(refusal, "set_mempolicy")
    newer = {_numa.MPOL_PREFERRED_MANY: "5.15", _numa.MPOL_WEIGHTED_INTERLEAVE: "6.9"}.get(mode)
    why = _why_no_memory(members) or (f"this policy needs Linux {newer}" if newer else "")
    return PlacementError(errno.EINVAL, f"set_mempolicy: {os.strerror(errno.EINVAL)}{why and '; ' + why}")


def effective_nodes(members: frozenset[int]) -> frozenset[int]:
    """The nodes that this process's policy has now: the kernel drops some without a word."""
    try:
        return members & _numa.get_mempolicy()[1]
    except OSError as refusal:
        from zerosys.refusal import placement_error

        raise placement_error(refusal, "get_mempolicy") from refusal


def dropped(lost: frozenset[int]) -> PlacementError:
    """The error of a policy that lost nodes."""
    return PlacementError(errno.EINVAL, f"set_mempolicy: the kernel leaves out {_why_no_memory(lost)}")
