"""On which CPUs the calling thread runs, by node or by CPU, for the length of a block."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from zerosys.errors import PlacementError
from zerosys.machine import topology
from zerosys.nodes import Spec, format, is_plain, parse
from zerosys.refusal import placement_error, warn
from zerosys.selection import cpu_set, node_set


@contextmanager
def run_on(
    nodes: Spec | None = None, *, cpus: Spec | None = None, strict: bool = True
) -> Iterator[frozenset[int]]:
    """Have the calling thread run only on the CPUs of *nodes*, or on *cpus*, inside the block.

    Both are as node_set() and cpu_set() take them: ``run_on("cuda:0")``, ``run_on(cpus="!0")``.

    Gives the CPUs in effect. On every way out the thread has the CPUs that it had
    before; blocks nest. Memory does not matter here: a node needs CPUs only, and of
    these one that is online and that the cpuset allows. "all" is whatever is allowed.
    With *strict*, a node that has none, or one of *cpus* that cannot be used, is
    PlacementError, which names it; without, PlacementWarning. A call that a filter refuses is either,
    too. Raises PlacementError where none is left or does not exist. See sched_setaffinity(2).
    """
    if (nodes is None) == (cpus is None):
        raise ValueError("run_on takes nodes or cpus=, one of the two")
    before = os.sched_getaffinity(0)
    try:
        if nodes is not None:
            yield _run_on_nodes(nodes, strict)
        elif cpus is not None:
            yield _run_on_cpus(cpus, strict)
    finally:
        if os.sched_getaffinity(0) != before:  # a filter that refused the first would refuse this one, too
            os.sched_setaffinity(0, before)


def _is_all(spec: Spec) -> bool:
    return isinstance(spec, str) and spec.strip() == "all"


def _run_on_nodes(spec: Spec, strict: bool) -> frozenset[int]:
    machine = topology()
    if _is_all(spec):
        return _pin(machine.online_cpus, strict)
    chosen = node_set(spec, role="cpus")
    bare = chosen - machine.nodes_with_cpus
    if bare:
        _complain(
            f"node {format(bare)} has no CPUs that are online "
            f"(nodes with CPUs: {format(machine.nodes_with_cpus)})",
            strict or bare == chosen,
        )
    members = {node: machine.nodes[node].online_cpus for node in chosen - bare}
    got = _pin(frozenset().union(*members.values()), strict)
    # Of a node's CPUs a container often has some: these are what was asked. None is not.
    barred = frozenset(node for node, cpus in members.items() if not cpus & got)
    if barred:
        _complain(f"no CPU of node {format(barred)} is allowed by this process's cpuset", strict)
    return got


def _run_on_cpus(spec: Spec, strict: bool) -> frozenset[int]:
    online = topology().online_cpus
    if _is_all(spec):
        return _pin(online, strict)
    plain = not isinstance(spec, str) or is_plain(spec)
    chosen = parse(spec, what="CPU") if plain else cpu_set(spec)
    away = chosen - online
    if away:
        _complain(f"CPU {format(away)} is not online (online: {format(online)})", strict or away == chosen)
    got = _pin(chosen - away, strict)
    if chosen - away - got:
        _complain(_forbidden(chosen - away - got), strict)
    return got


def _pin(wanted: frozenset[int], strict: bool) -> frozenset[int]:
    """Pin the thread; the CPUs that it got, since the kernel drops what the cpuset forbids."""
    try:
        os.sched_setaffinity(0, wanted)
    except OSError as refusal:
        if refusal.errno == errno.EINVAL:
            raise PlacementError(errno.EINVAL, _forbidden(wanted)) from refusal
        error = placement_error(refusal, "sched_setaffinity")
        if strict:
            raise error from refusal
        warn(f"not pinned: {error.strerror}")
    return frozenset(os.sched_getaffinity(0))


def _forbidden(cpus: frozenset[int]) -> str:
    return f"sched_setaffinity: CPU {format(cpus)} is not allowed by this process's cpuset"


def _complain(text: str, strict: bool) -> None:
    if strict:
        raise PlacementError(errno.EINVAL, text)
    warn(text)
