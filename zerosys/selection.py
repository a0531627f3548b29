"""A set of nodes or CPUs as people name it, held against the machine: the one way from text to numbers."""

from __future__ import annotations

import os
from operator import index

from zerosys.machine import topology
from zerosys.nodes import format, parse

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Set
    from typing import Literal

    from zerosys.nodes import Spec


def node_set(
    spec: Spec,
    *,
    role: Literal["memory", "cpus"] = "memory",
    previous: Set[int] | None = None,
    root: str | os.PathLike[str] = "/",
) -> frozenset[int]:
    """The nodes that *spec* means on this machine: an int, an iterable of ints, or text as numactl takes it.

    ``"0,2-5"``; ``"all"``; ``"!1"``, all but these; ``"+0-1"``, counted within all; ``"same"``,
    *previous*; a device as node_of() takes it, ``"cuda:0"``. "all" are the nodes on which this
    thread may have memory, devices' own left out; with the *role* "cpus" those on which it may run.

    Raises PlacementError(ENODEV) for a node or device that does not exist, or a device that
    has no node, ValueError for text that cannot be read and for the empty set, TypeError for
    what is no whole number. Whether memory or CPUs can be had there is the user's question.
    """
    machine = topology(root)
    everything = machine.all_nodes
    if role == "cpus":
        everything = frozenset(node.id for node in machine.nodes.values() if node.allowed_cpus)
    return parse(
        spec,
        frozenset(machine.nodes),
        everything=everything,
        previous=previous,
        select=lambda selector: [_node_of(selector, root)],
    )


def one_node(spec: Spec, *, root: str | os.PathLike[str] = "/") -> int:
    """The node that *spec* means, in the writing of node_set(); ValueError where it means several.

    A number is taken as it is: its use tells what it lacks.
    """
    chosen = node_set(spec, root=root) if isinstance(spec, str) else parse(spec)
    if len(chosen) != 1:
        raise ValueError(f"one node is wanted, and {spec!r} means {format(chosen)}")
    return min(chosen)


def cpu_set(
    spec: Spec, *, previous: Set[int] | None = None, root: str | os.PathLike[str] = "/"
) -> frozenset[int]:
    """The CPUs that *spec* means on this machine, in the writing of node_set().

    "all" are those on which this thread may run, a device stands for the CPUs of its node,
    or those nearest to that. Offline CPUs do not exist. Raises as node_set().
    """
    machine = topology(root)
    return parse(
        spec,
        machine.online_cpus,
        what="CPU",
        everything=machine.allowed_cpus,
        previous=previous,
        select=lambda selector: machine.nearest_cpus(_node_of(selector, root)),
    )


def _node_of(selector: str, root: str | os.PathLike[str]) -> int:
    from zerosys.locality import node_of  # it loads sockets and ctypes, which numbers do not need

    return index(node_of(selector, root=root))
