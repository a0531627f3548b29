"""What ``numactl --show`` and ``numactl --hardware`` print, to the byte: scripts read it."""

from __future__ import annotations

import errno
import os

from zerosys import _numa, nodes
from zerosys.machine import topology

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zerosys.machine import Topology

POLICY_NAMES = {
    _numa.MPOL_DEFAULT: "default",
    _numa.MPOL_PREFERRED: "preferred",
    _numa.MPOL_BIND: "bind",
    _numa.MPOL_INTERLEAVE: "interleave",
    _numa.MPOL_LOCAL: "local",
    _numa.MPOL_PREFERRED_MANY: "preferred-many",
}


def policy_name(mode: int) -> str:
    """numactl's name of a mode; what it has none for, such as one with flags, is a number."""
    return POLICY_NAMES.get(mode, f"[{mode}]")


def full_name(mode: int) -> str:
    """The name of a mode, each of its flags behind it."""
    flags = {
        _numa.MPOL_F_NUMA_BALANCING: "balancing",
        _numa.MPOL_F_RELATIVE_NODES: "relative",
        _numa.MPOL_F_STATIC_NODES: "static",
    }
    bare = mode & ~sum(flags)
    name = "weighted-interleave" if bare == _numa.MPOL_WEIGHTED_INTERLEAVE else policy_name(bare)
    return " ".join([name, *(word for bit, word in flags.items() if mode & bit)])


def mask(name: str, members: Iterable[int]) -> str:
    """A line that lists *members*."""
    return f"{name}: {''.join(f'{member} ' for member in sorted(members))}\n"


def has_numa() -> bool:
    """Whether this kernel has NUMA calls, and lets this process make them."""
    try:
        _numa.get_mempolicy()
    except OSError as refusal:
        if refusal.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        return False
    return True


def show(exact: bool = True) -> str:
    """The policy and the CPUs of this process.

    *exact* is what numactl prints, which has no names for new modes, does not end a
    line for some, and leaves out nodes that have CPUs only. Without, that is made good.
    """
    machine = topology()
    mode, members = _numa.get_mempolicy()
    following = _numa.next_node()
    lines = [
        f"policy: {policy_name(mode) if exact else full_name(mode)}\n",
        "preferred node: ",
        _preferred(mode, members, following) or ("" if exact else f"{_any_preferred(members)}\n"),
    ]
    if mode == _numa.MPOL_INTERLEAVE:
        lines += [mask("interleavemask", members), f"interleavenode: {following}\n"]
    running = machine.nodes_with_cpus & (machine.allowed_nodes if exact else frozenset(machine.nodes))
    bound = {node for node in running if machine.nodes[node].online_cpus & machine.allowed_cpus}
    lines += [
        show_cpus(),
        mask("cpubind", bound),
        mask("nodebind", bound),
        mask("membind", members if mode == _numa.MPOL_BIND else _numa.mems_allowed()),
        mask("preferred", members),
    ]
    return "".join(lines)


def _preferred(mode: int, members: frozenset[int], following: int) -> str:
    """The rest of its line. numactl ends the line for these modes alone."""
    return {
        _numa.MPOL_PREFERRED: f"{min(members, default=0)}\n",
        _numa.MPOL_DEFAULT: "current\n",
        _numa.MPOL_INTERLEAVE: f"{following} (interleave next)\n",
        _numa.MPOL_BIND: f"{min(members, default=-1)}\n",
        _numa.MPOL_PREFERRED_MANY: f"{following} (preferred-many)\n",
    }.get(mode, "")


def _any_preferred(members: frozenset[int]) -> str:
    return str(min(members)) if members else "current"


def show_cpus() -> str:
    return mask("physcpubind", os.sched_getaffinity(0))


def hardware(
    machine: Topology, compress: bool = False, paint: Callable[[int, str], str] | None = None
) -> str:
    """The nodes, their CPUs and memory, and the distances between them, whose cells *paint* colours."""
    ids = sorted(machine.nodes)
    lines = [f"available: {len(ids)} nodes ({nodes.format(ids)})\n"]
    for id in ids:
        node = machine.nodes[id]
        lines += [
            f"node {id} cpus:{_cpus(node.cpus, compress)}\n",
            f"node {id} size: {node.memory_total >> 20} MB\n",
            f"node {id} free: {node.memory_free >> 20} MB\n",
        ]
    return "".join(lines) + _distances(machine, paint)


def _cpus(cpus: frozenset[int], compress: bool) -> str:
    if not compress:
        return "".join(f" {cpu}" for cpu in sorted(cpus))
    ranges = "".join(f" {part}," for part in nodes.format(cpus).split(",") if part)
    return f"{ranges.removesuffix(',')} ({len(cpus)})"


def _distances(machine: Topology, paint: Callable[[int, str], str] | None) -> str:
    ids = sorted(machine.nodes)
    if not machine.nodes[ids[-1]].distances.get(ids[0]):
        return "No distance information available.\n"
    lines = ["node distances:\n", "node ", *(f"{id:> 3d} " for id in ids), "\n"]
    for id in ids:
        lines.append(f"{id:> 3d}: ")
        for other in ids:
            distance = machine.nodes[id].distances.get(other, 0)
            cell = f"{distance:> 3d} "
            lines.append(paint(distance, cell) if paint else cell)
        lines.append("\n")
    return "".join(lines)
