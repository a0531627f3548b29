"""On which CPUs the calling thread runs, by node or by CPU, for the length of a block."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from zerosys.errors import PlacementError
from zerosys.machine import topology
from zerosys.nodes import Spec, format, parse
from zerosys.refusal import warn


@contextmanager
def run_on(
    nodes: Spec | None = None, *, cpus: Spec | None = None, strict: bool = True
) -> Iterator[frozenset[int]]:
    """Have the calling thread run only on the CPUs of *nodes*, or on *cpus*, inside the block.

    Gives the CPUs in effect. On every way out the thread has the CPUs that it had
    before; blocks nest. Memory does not matter here: a node needs CPUs only. With
    *strict*, a node without online CPUs and a CPU that the cpuset forbids are
    PlacementError, which names them; without, PlacementWarning. Raises PlacementError
    where none is left or does not exist. See sched_setaffinity(2).
    """
    if (nodes is None) == (cpus is None):
        raise ValueError("run_on takes nodes or cpus=, one of the two")
    wanted = _cpus_of(nodes, strict) if nodes is not None else _online(cpus, strict)
    before = os.sched_getaffinity(0)
    try:
        yield _pin(wanted, strict)
    finally:
        os.sched_setaffinity(0, before)


def _cpus_of(spec: Spec | None, strict: bool) -> frozenset[int]:
    machine = topology()
    assert spec is not None
    if isinstance(spec, str) and spec.strip() == "all":
        return machine.online_cpus
    chosen = parse(spec, frozenset(machine.nodes))
    bare = chosen - machine.nodes_with_cpus
    if bare:
        _complain(
            f"node {format(bare)} has no CPUs that are online "
            f"(nodes with CPUs: {format(machine.nodes_with_cpus)})", strict or bare == chosen)
    return frozenset().union(*(machine.nodes[node].online_cpus for node in chosen))


def _online(spec: Spec | None, strict: bool) -> frozenset[int]:
    machine = topology()
    assert spec is not None
    chosen = parse(spec, machine.online_cpus if spec == "all" else None, what="CPU")
    away = chosen - machine.online_cpus
    if away:
        _complain(f"CPU {format(away)} is not online (online: {format(machine.online_cpus)})",
                  strict or away == chosen)
    return chosen & machine.online_cpus


def _pin(wanted: frozenset[int], strict: bool) -> frozenset[int]:
    try:
        os.sched_setaffinity(0, wanted)
    except OSError as refusal:
        if refusal.errno != errno.EINVAL:
            raise
        raise PlacementError(errno.EINVAL, _forbidden(wanted)) from refusal
    # The kernel keeps only what the cpuset allows, without a word.
    got = frozenset(os.sched_getaffinity(0))
    if wanted - got:
        _complain(_forbidden(wanted - got), strict)
    return got


def _forbidden(cpus: frozenset[int]) -> str:
    return f"sched_setaffinity: CPU {format(cpus)} is not allowed by this process's cpuset"


def _complain(text: str, strict: bool) -> None:
    if strict:
        raise PlacementError(errno.EINVAL, text)
    warn(text)
