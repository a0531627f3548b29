"""Which processes have files mapped, as far as /proc lets them be seen."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


class Process(NamedTuple):
    """A process that has memory mapped: its number and the name of its command."""

    pid: int
    command: str


@dataclass(frozen=True)
class Attached:
    """Who maps which file, by device and inode number; ``unread`` processes could not be asked."""

    by_file: Mapping[tuple[int, int], tuple[Process, ...]]
    unread: int

    def to(self, device: int, inode: int) -> tuple[Process, ...]:
        """The processes known to map that file, by number."""
        return self.by_file.get((device, inode), ())


def attached(devices: Collection[int], proc: Path = PROC) -> Attached:
    """Read every process's mappings once, for files on *devices* (numbers as in st_dev).

    Processes of other users may not let themselves be asked: they are counted, as one where
    hidepid= hides how many there are. Those of other pid namespaces cannot be seen at all.
    See proc_pid_maps(5).
    """
    marks = [f" {os.major(device):02x}:{os.minor(device):02x} ".encode() for device in devices]
    found: dict[tuple[int, int], list[Process]] = {}
    entries = sorted((name for name in os.listdir(proc) if name.isdigit()), key=int)
    unread = 0 if "1" in entries else 1
    for entry in entries:
        try:
            maps = (proc / entry / "maps").read_bytes()
            files = _files(maps, marks)
            if not files:
                continue
            command = (proc / entry / "comm").read_bytes().removesuffix(b"\n").decode(errors="replace")
        except PermissionError:
            unread += 1
            continue
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
        for file in files:
            found.setdefault(file, []).append(Process(int(entry), command))
    return Attached({file: tuple(processes) for file, processes in found.items()}, unread)


def _files(maps: bytes, marks: Collection[bytes]) -> set[tuple[int, int]]:
    """The device and inode numbers of *marks* in the lines of a process's maps."""
    if not any(mark in maps for mark in marks):
        return set()  # most processes: their thousands of lines are not taken apart
    found = set()
    for line in maps.split(b"\n"):  # paths may have all else that ends a line
        if any(mark in line for mark in marks):
            _, _, _, device, inode, *_ = line.split(None, 5)
            major, minor = device.split(b":")
            found.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    return found
