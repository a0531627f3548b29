"""What the doctor finds about nodes: libnuma, the nodes, what this process may use, balancing."""

from __future__ import annotations

from pathlib import Path

from zerosys.doctor.finding import Finding
from zerosys.doctor.reading import text
from zerosys.machine import Topology, topology
from zerosys.nodes import format


def check(root: Path) -> list[Finding]:
    """The findings about the machine below *root*."""
    seen = topology(root)
    return [_libnuma(), _nodes(seen), _allowed(seen), _balancing(root)]


def _libnuma() -> Finding:
    try:
        from zerosys import _numa  # noqa: F401
    except ImportError as missing:
        return Finding("libnuma", "broken", str(missing), "apt-get install libnuma1, or use zerosys's wheel")
    return Finding("libnuma", "ok", "loaded, and silent")


def _nodes(seen: Topology) -> Finding:
    if not seen.available:
        return Finding(
            "NUMA nodes",
            "limited",
            "no /sys/devices/system/node here: all memory counts as node 0, and nothing can be placed",
            "mount /sys into the container, or run a kernel with CONFIG_NUMA",
        )
    kinds = {node.id: node.kind for node in seen.nodes.values()}
    odd = ", ".join(f"node {number}: {kind}" for number, kind in kinds.items() if kind != "ordinary")
    return Finding("NUMA nodes", "ok", f"nodes {format(frozenset(kinds))}" + (f" ({odd})" if odd else ""))


def _allowed(seen: Topology) -> Finding:
    cpus = f"CPUs {format(seen.allowed_cpus)} of {format(seen.online_cpus)}"
    memory = f"memory on nodes {format(seen.allowed_nodes)} of {format(seen.nodes_with_memory)}"
    whole = seen.allowed_cpus == seen.online_cpus and seen.allowed_nodes == seen.nodes_with_memory
    return Finding(
        "what this process may use",
        "ok" if whole else "limited",
        f"{cpus}, {memory}",
        None
        if whole
        else "widen cpuset.cpus and cpuset.mems of its cgroup (docker run --cpuset-cpus, --cpuset-mems),"
        " or taskset -p -c 0-$(($(nproc --all) - 1)) PID",
    )


def _balancing(root: Path) -> Finding:
    mode = text(root / "proc/sys/kernel/numa_balancing")
    if mode is None:
        return Finding("NUMA balancing", "absent", "this kernel does not balance")
    if mode == "0":
        return Finding("NUMA balancing", "ok", "off: pages stay where they were placed")
    return Finding(
        "NUMA balancing",
        "limited",
        f"on (mode {mode}): the kernel unmaps pages to see who uses them, and moves those without a policy",
        "sysctl kernel.numa_balancing=0",
    )
