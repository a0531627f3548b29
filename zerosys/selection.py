"""A set of nodes or CPUs as people name it, held against the machine: the one way from text to numbers."""

from __future__ import annotations

import os

from zerosys.machine import topology
from zerosys.nodes import parse

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Set

    from zerosys.nodes import Spec


def node_set(
    spec: Spec, *, previous: Set[int] | None = None, root: str | os.PathLike[str] = "/"
) -> frozenset[int]:
    """The nodes that *spec* means on this machine: an int, an iterable of ints, or text as numactl takes it.

    ``"0,2-5"``, ``"all"`` (those on which this thread may have memory, devices' own left out),
    ``"!1"`` (all but these), ``"+0-1"`` (counted within all), ``"same"`` (*previous*). See docs/numa.md.

    Raises PlacementError(ENODEV) for a node that does not exist, ValueError for text that
    cannot be read and for the empty set, TypeError for what is no whole number. Whether memory or
    CPUs can be had there is the user's question.
    """
    machine = topology(root)
    return parse(spec, frozenset(machine.nodes), everything=machine.all_nodes, previous=previous)


def cpu_set(
    spec: Spec, *, previous: Set[int] | None = None, root: str | os.PathLike[str] = "/"
) -> frozenset[int]:
    """The CPUs that *spec* means on this machine, in the writing of node_set().

    "all" are those on which this thread may run. Offline CPUs do not exist. Raises as node_set().
    """
    machine = topology(root)
    return parse(spec, machine.online_cpus, what="CPU", everything=machine.allowed_cpus, previous=previous)
