"""What the kernel has mapped at an address: asked before the driver, which hangs or says "invalid value"."""

from __future__ import annotations

from typing import NamedTuple

_MEMORY = ("tmpfs", "hugetlbfs", "ramfs", "devtmpfs")
_NAMELESS = ("/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage", "/dev/shm/")


class Area(NamedTuple):
    """One line of /proc/self/maps."""

    start: int
    end: int
    rights: str  # "rw-s"
    device: str  # "fd:01"
    inode: int
    path: str


def areas(address: int, length: int) -> list[Area]:
    """The areas that hold *length* bytes at *address*, in order. See proc_pid_maps(5)."""
    found = []
    with open("/proc/self/maps", errors="replace", newline="\n") as lines:
        for line in lines:
            span, rights, _, device, inode, *path = line.split(None, 5)
            start, end = (int(word, 16) for word in span.split("-"))
            if start >= address + length:
                break
            if end > address:
                found.append(
                    Area(start, end, rights, device, int(inode), path[0].rstrip("\n") if path else "")
                )
    return found


def why_refused(found: list[Area], address: int, length: int) -> str | None:
    """What about *found*, the areas of the range, no driver pins, or only after a hang; else None."""
    reached = address
    for area in found:
        if area.start > reached:
            break
        if "r" not in area.rights:
            return f"{area.start:#x} to {area.end:#x} of it may not be read"
        if area.inode and area.rights.endswith("p") and "w" not in area.rights:
            return f"it maps {area.path} private and read-only, over which the driver hangs: map it shared"
        reached = area.end
    return f"nothing is mapped at {reached:#x}" if reached < address + length else None


def writable(found: list[Area]) -> bool:
    """Whether every page of *found* may be written."""
    return all("w" in area.rights for area in found)


def why_invalid(found: list[Area]) -> str | None:
    """What explains a driver's "invalid value" over *found*; None where nothing seen does."""
    for area in found:
        if not area.inode or area.path.startswith(_NAMELESS):
            continue
        if area.path.startswith("/dev/"):
            return f"it is memory of the driver behind {area.path}"
        kind = _file_system(area.device)
        if area.rights.endswith("s") and kind and kind not in _MEMORY:
            return f"it maps {area.path}, whose pages belong to a file system ({kind}) and not to memory"
    return None


def _file_system(device: str) -> str | None:
    """The type of the mounted file system that has the number *device*. See proc_pid_mountinfo(5)."""
    major, minor = (int(part, 16) for part in device.split(":"))
    with open("/proc/self/mountinfo", errors="replace", newline="\n") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            if before.split()[2] == f"{major}:{minor}":
                return after.split()[0]
    return None
