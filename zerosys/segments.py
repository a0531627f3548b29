"""The shared memory of this machine that has names: what there is, where it lies, who has it.

Looking makes no page, reads no byte and takes no lock that anybody waits for. What is
mapped is mapped to be read only, and never touched from here: a file that its owner
truncates meanwhile sends no signal.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from zerosys import names
from zerosys._descriptor import Descriptor, own
from zerosys._mmap import page_size_of
from zerosys.attached import Attached, Process, attached
from zerosys.extant import nodes_of

IN_USE, ORPHAN, KEPT, FOREIGN, UNKNOWN = "in use", "orphan", "kept", "foreign", "unknown"


@dataclass(frozen=True)
class Segment:
    """Shared memory with a name, as it was at ``time`` (seconds since the epoch).

    ``nodes`` counts the pages in memory by node; ``unplaced`` are those that exist too, and of
    which no node can be told: swapped out, reserved (fallocate) and not written yet, or in a
    file that this process may not read.
    ``state`` is "in use", "orphan" (zerosys made it and nobody has it: gc may remove it),
    "kept" (zerosys made it, and it was to be kept), "foreign" (another program made it) or
    "unknown" (its lock may not be looked at). ``attached`` are the processes seen to have it
    mapped; ``unread`` others could not be asked.
    """

    name: str
    path: str
    size: int
    page_size: int
    nodes: dict[int, int]
    unplaced: int
    uid: int
    mode: int
    state: str
    attached: tuple[Process, ...]
    unread: int
    time: float

    @property
    def pages(self) -> int:
        """The pages that exist; those of a sparse segment are fewer than its size has room for."""
        return sum(self.nodes.values()) + self.unplaced

    def to_dict(self) -> dict[str, Any]:
        """What ``zerosys region ls --json`` prints: plain values."""
        return {
            "name": self.name,
            "path": self.path,
            "size": self.size,
            "page_size": self.page_size,
            "pages": self.pages,
            "nodes": {str(node): count for node, count in sorted(self.nodes.items())},
            "unplaced": self.unplaced,
            "uid": self.uid,
            "mode": f"{self.mode:04o}",
            "state": self.state,
            "attached": [process._asdict() for process in self.attached],
            "unread": self.unread,
            "time": self.time,
        }


def listing() -> list[Segment]:
    """Every segment in /dev/shm and the hugetlbfs mounts, by folder and name."""
    places = _folders()
    seen = attached({device for _, device in places})
    found = []
    for folder, _ in places:
        try:
            inside = sorted(os.listdir(folder))
        except OSError:
            continue  # a mount that went away, or is not ours to list
        for name in inside:
            segment = _look(f"{folder}/{name}", seen)
            if segment:
                found.append(segment)
    return found


def segment(name: str) -> Segment:
    """The segment that *name* means now.

    Raises FileNotFoundError, and ValueError for what is no segment.
    """
    path = names.find(name)
    found = _look(path, attached({os.lstat(path).st_dev}))
    if found is None:
        if os.path.lexists(path):
            raise ValueError(f"{path} is no shared memory: it is not a regular file")
        raise FileNotFoundError(errno.ENOENT, "it was removed meanwhile", path)
    return found


def remove(name: str) -> str:
    """Take *name* away from everybody, whoever made it; return the path it had.

    Who has the memory attached keeps it. Raises FileNotFoundError, PermissionError for a name of
    another user, ValueError for what is no segment.
    """
    path = names.find(name)
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError(f"{path} is no shared memory: it is not a regular file")
    try:
        os.unlink(path)
    except PermissionError as refusal:
        raise PermissionError(
            refusal.errno, "only its owner, the folder's owner or root may remove it", path
        ) from None
    return path


def _folders() -> list[tuple[str, int]]:
    """The folders with names, each once however often it is mounted, and their devices."""
    found: dict[tuple[int, int], str] = {}
    for folder in names.folders():
        try:
            about = os.stat(folder)
        except OSError:
            continue
        found.setdefault((about.st_dev, about.st_ino), folder)
    return [(folder, device) for (device, _), folder in found.items()]


def _look(path: str, seen: Attached) -> Segment | None:
    """What *path* is now; None if it is gone, or no segment."""
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode):
            return None  # and not opened either: a fifo's writer would wake
        when = time.time()
        page, nodes = os.statvfs(path).f_bsize, Counter[int]()
    except OSError:
        return None
    file = _opened(path)
    if file:
        try:
            about, page = os.fstat(file.fileno()), page_size_of(file)
            if not stat.S_ISREG(about.st_mode):
                return None  # another one by now
            nodes = nodes_of(file.fileno(), about, page)
        finally:
            file.close()
    exist = -(-about.st_blocks * 512 // page)
    return Segment(
        os.path.basename(path),
        path,
        about.st_size,
        page,
        dict(nodes),
        max(0, exist - nodes.total()),
        about.st_uid,
        stat.S_IMODE(about.st_mode),
        _state(path, about.st_mode, file is not None),
        seen.to(about.st_dev, about.st_ino),
        seen.unread,
        when,
    )


def _opened(path: str) -> Descriptor | None:
    """*path*, to be read, if that may be; its time of last access stays where that is allowed."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for also in (os.O_NOATIME, 0):  # for the owner alone
        try:
            return own(os.open, path, flags | also)
        except OSError:
            pass
    return None


def _state(path: str, mode: int, readable: bool) -> str:
    if mode & names.COLLECTABLE:
        if not readable:
            return UNKNOWN
        return ORPHAN if names.orphaned(path) else IN_USE
    return KEPT if mode & names.KEPT else FOREIGN
