"""The memory limits of every cgroup that this process is in, v1 and v2, as far up as it can see."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zerosys.sysfs import lines

#: v1 writes "no limit" as the largest multiple of the page size below 2**63.
NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class Controller:
    """What one limit is called: the files of its maximum and use, and what of the use can go at once."""

    maximum: str
    current: str
    reclaimable: tuple[str, ...] = ()


_MEMORY = {
    "cgroup2": Controller(
        "memory.max", "memory.current", ("active_file", "inactive_file", "slab_reclaimable")
    ),
    "cgroup": Controller(
        "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
    ),
}


@dataclass(frozen=True)
class Cgroup:
    """One folder with a limit."""

    folder: Path
    controller: Controller

    def maximum(self) -> int | None:
        """The limit in bytes, read now; None where there is none."""
        try:
            text = (self.folder / self.controller.maximum).read_text().strip()
        except OSError:
            return None  # the root has no such file; a cgroup can vanish
        return int(text) if text.isdigit() and int(text) < NO_LIMIT else None

    def room(self, enough: int) -> int | None:
        """The bytes that may still be charged, or None for any number; exact only below *enough*.

        File cache and reclaimable slab count as room; they are added up only where free
        room is not enough, because the kernel sums memory.stat over all CPUs.
        """
        maximum = self.maximum()
        if maximum is None:
            return None
        try:
            room = maximum - int((self.folder / self.controller.current).read_text())
            if room < enough and self.controller.reclaimable:
                room += self._reclaimable()
        except (OSError, ValueError):
            return None
        return max(room, 0)

    def _reclaimable(self) -> int:
        pairs = (line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        wanted = self.controller.reclaimable
        return sum(int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in wanted)


def memory_cgroups(root: Path) -> list[Cgroup]:
    """Our cgroups whose memory can be limited, the nearest first."""
    return [
        Cgroup(folder, _MEMORY[kind])
        for kind, folder in _folders(root, "memory")
        if (folder / _MEMORY[kind].maximum).exists()
    ]


def hugetlb_cgroups(root: Path, page: int) -> list[Cgroup]:
    """Our cgroups whose huge pages of *page* bytes can be limited, the nearest first."""
    shift, unit = next((s, u) for s, u in ((30, "GB"), (20, "MB"), (10, "KB")) if page >> s)
    size = f"{page >> shift}{unit}"
    names = {
        "cgroup2": Controller(f"hugetlb.{size}.max", f"hugetlb.{size}.current"),
        "cgroup": Controller(f"hugetlb.{size}.limit_in_bytes", f"hugetlb.{size}.usage_in_bytes"),
    }
    return [
        Cgroup(folder, names[kind])
        for kind, folder in _folders(root, "hugetlb")
        if (folder / names[kind].maximum).exists()
    ]


def _folders(root: Path, controller: str) -> Iterator[tuple[str, Path]]:
    """Our folder of *controller* and those above it, in each hierarchy: (file system, folder)."""
    ours = _memberships(root)
    for kind, below, mount_point, options in _mounts(root):
        if kind == "cgroup" and controller not in options:
            continue
        path = ours.get(controller if kind == "cgroup" else "")
        relative = _relative(path, below) if path is not None else None
        if relative is None:
            continue  # the mount shows another part of the tree than ours
        top = root / mount_point.lstrip("/")
        folder = top / relative
        yield kind, folder
        while folder != top:
            folder = folder.parent
            yield kind, folder


def _memberships(root: Path) -> dict[str, str]:
    """Our path in each hierarchy, by controller; v2's is the nameless one."""
    paths = {}
    for line in filter(None, lines(f"{root}/proc/self/cgroup")):
        _, names, path = line.split(":", 2)
        paths.update(dict.fromkeys(names.split(","), path))
    return paths


def _mounts(root: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """The cgroup mounts: (file system, the part of the hierarchy that is mounted, where, options)."""
    for line in lines(f"{root}/proc/self/mountinfo"):
        fields, _, about = line.partition(" - ")
        kind, *more = about.split(" ")
        if kind in ("cgroup", "cgroup2"):
            _, _, _, below, mount_point, *_ = fields.split(" ")
            yield kind, _unescaped(below), _unescaped(mount_point), more[-1].split(",")


def _relative(path: str, below: str) -> str | None:
    """*path* seen from *below*, both as our cgroup namespace names them; None outside of it.

    A name with ``..`` leads out of the namespace, where folders have no names for us.
    """
    if ".." in path.split("/") or ".." in below.split("/"):
        return "" if path == below else None
    inside = os.path.relpath(path, below)
    return None if inside.startswith("..") else "" if inside == "." else inside


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
