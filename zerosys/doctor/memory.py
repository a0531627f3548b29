"""What the doctor finds about memory: cgroups, locking, huge pages, /dev/shm, swap."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from zerosys.cgroups import memory_cgroups
from zerosys.doctor.finding import Finding
from zerosys.doctor.reading import chosen, text
from zerosys.locking import may_lock_all
from zerosys.machine import topology
from zerosys.names import SHM, huge_mounts
from zerosys.sizes import rough_size, show_size

_ENOUGH = 64 << 20  # what a first region, a ring or a registration wants


def check(root: Path) -> list[Finding]:
    """The findings about memory; sizes of mounts and limits of the process are this process's own."""
    return [
        _cgroups(root),
        _locked(),
        *_pools(root),
        _huge_names(),
        _thp(root),
        _shm(),
        _swap(root),
        _overcommit(root),
    ]


def _cgroups(root: Path) -> Finding:
    limits = [(group.maximum(), group.room(1 << 62), group) for group in memory_cgroups(root)]
    bounded = [
        (room, maximum, group) for maximum, room, group in limits if maximum is not None and room is not None
    ]
    if not bounded:
        return Finding("cgroup memory limit", "ok", "none that this process can see")
    room, maximum, group = min(bounded, key=lambda bound: bound[0])
    file = group.folder / group.controller.maximum
    tight = room < _ENOUGH
    return Finding(
        "cgroup memory limit",
        "limited" if tight else "ok",
        f"{rough_size(room)} of {rough_size(maximum)} left ({file})",
        f"echo max > {file} (a container: docker run --memory)" if tight else None,
    )


def _locked() -> Finding:
    limit, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if may_lock_all():
        return Finding("locked memory", "ok", "CAP_IPC_LOCK is effective: no limit counts")
    if limit == resource.RLIM_INFINITY:
        return Finding("locked memory", "ok", "RLIMIT_MEMLOCK is unlimited")
    raised = (
        "ulimit -l unlimited"
        if hard == resource.RLIM_INFINITY
        else (
            "LimitMEMLOCK=infinity in the service, memlock in /etc/security/limits.conf,"
            " or docker run --ulimit memlock=-1"
        )
    )
    return Finding(
        "locked memory",
        "limited" if limit < _ENOUGH else "ok",
        f"RLIMIT_MEMLOCK is {show_size(limit)}, and CAP_IPC_LOCK is not effective",
        raised if limit < _ENOUGH else None,
    )


def _pools(root: Path) -> list[Finding]:
    nodes = topology(root).nodes
    sizes = sorted({size for node in nodes.values() for size in node.huge_pages})
    if not sizes:
        return [Finding("huge pages", "absent", "this kernel has none")]
    return [
        _pool(size, {node.id: node.huge_pages.get(size, (0, 0)) for node in nodes.values()}) for size in sizes
    ]


def _pool(size: int, nodes: dict[int, tuple[int, int]]) -> Finding:
    what = f"huge pages of {show_size(size)}"
    evidence = ", ".join(
        f"node {node}: {free} free of {total}" for node, (total, free) in sorted(nodes.items())
    )
    if any(free for _, free in nodes.values()):
        return Finding(what, "ok", evidence)
    return Finding(
        what,
        "absent",
        evidence,
        f"echo 64 >"
        f" /sys/devices/system/node/node{min(nodes)}/hugepages/hugepages-{size >> 10}kB/nr_hugepages",
    )


def _huge_names() -> Finding:
    mounts = [f"{path} ({show_size(size)})" for path, size in huge_mounts()]
    if mounts:
        return Finding("hugetlbfs", "ok", "mounted: " + ", ".join(mounts))
    return Finding(
        "hugetlbfs",
        "absent",
        "not mounted: regions in huge pages can have no name",
        "mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages",
    )


def _thp(root: Path) -> Finding:
    folder = root / "sys/kernel/mm/transparent_hugepage"
    mode, shared = chosen(folder / "enabled"), chosen(folder / "shmem_enabled")
    what = "transparent huge pages"
    if mode is None:
        return Finding(what, "absent", "this kernel has none")
    evidence = f"for private memory: {mode}, for shared: {shared}"
    if mode == "never":
        return Finding(
            what,
            "limited",
            evidence,
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    if shared in ("never", "deny", None):
        evidence += "; pages='thp' asks for a collapse after populating, which works all the same"
    return Finding(what, "ok", evidence)


def _shm() -> Finding:
    try:
        disk = os.statvfs(SHM)
    except OSError as refusal:
        return Finding(
            SHM, "broken", f"{refusal.strerror}: there are no named regions", f"mount -t tmpfs tmpfs {SHM}"
        )
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    if not size:
        return Finding(SHM, "ok", "no limit of its own")
    return Finding(
        SHM,
        "ok" if free > _ENOUGH else "limited",
        f"{rough_size(free)} free of {rough_size(size)}",
        None
        if free > _ENOUGH
        else f"mount -o remount,size=50% {SHM} (docker run --shm-size=1g), or remove: zerosys region gc",
    )


def _swap(root: Path) -> Finding:
    lines = (text(root / "proc/swaps") or "").splitlines()[1:]
    if not lines:
        return Finding("swap", "ok", "none: what is populated stays in memory")
    total = sum(int(line.split()[2]) for line in lines) * 1024
    return Finding(
        "swap",
        "ok" if may_lock_all() else "limited",
        f"{rough_size(total)}: memory that is not locked may leave its node for the disk",
        None if may_lock_all() else "lock=True where it matters, or swapoff -a",
    )


def _overcommit(root: Path) -> Finding:
    mode = text(root / "proc/sys/vm/overcommit_memory")
    if mode != "2":
        return Finding("overcommit", "ok", f"vm.overcommit_memory is {mode}")
    return Finding(
        "overcommit",
        "limited",
        "vm.overcommit_memory is 2: large mappings are refused before memory is short",
        "sysctl vm.overcommit_memory=0",
    )
