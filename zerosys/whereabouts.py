"""Where the pages of any buffer or process lie, by asking and never by touching."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import PAGESIZE
from typing import Protocol

from zerosys import _numa
from zerosys.extent import Extent, Memory, pages_of
from zerosys.numa_maps import bytes_by_node
from zerosys.refusal import placement_error


class HasFileno(Protocol):
    def fileno(self) -> int: ...


@dataclass(frozen=True)
class Placement:
    """Where pages were, at ``time`` (seconds since the epoch), in pages of ``page_size`` bytes.

    ``absent`` pages do not exist yet, are swapped out, or are the one page of zeros that
    reading an untouched address shows. ``unmapped`` ones exist and belong to someone,
    but this process has not mapped them yet, and the kernel does not say where they
    lie: touch or populate them first. ``unknown`` are those of which not even that can
    be told: huge pages without *fd*, pages that something holds at this moment, and, where a
    filter refuses mincore(2), what is absent or unmapped.
    """

    nodes: Mapping[int, int]
    absent: int
    unmapped: int
    unknown: int
    page_size: int
    time: float

    @property
    def pages(self) -> int:
        """All of them, those that do not exist, too."""
        return sum(self.nodes.values()) + self.absent + self.unmapped + self.unknown

    def all_on(self, nodes: int | frozenset[int]) -> bool:
        """Whether every page is known to lie on *nodes*."""
        wanted = {nodes} if isinstance(nodes, int) else nodes
        return not (self.absent or self.unmapped or self.unknown) and set(self.nodes) <= wanted


def placement(memory: Memory | int, *, fd: int | HasFileno | None = None) -> Placement:
    """Count the pages that hold *memory* by the node on which they lie; those of a mirror once.

    Asking creates no page, reads none, and maps none. *fd*, the file that all of *memory*
    maps, tells absent from unmapped for huge pages, where mincore(2) cannot. Raises
    PlacementError where move_pages(2) is refused. See move_pages(2).

    An int is a process, by its id (0: this one): every page that it has mapped counts, in base
    pages, huge ones as many; absent pages are not counted. Pages that several processes
    have mapped count in each. Raises ProcessLookupError, and PermissionError for another
    user's process. See numa_maps in proc(5).
    """
    if isinstance(memory, bool):
        raise TypeError(f"placement takes memory, or a process by its id, not {memory}")
    if isinstance(memory, int):
        return _of_process(memory)
    with pages_of(memory) as whole:
        extent, when = whole.distinct, time.time()
        try:
            counts = _numa.count_statuses(extent.address, extent.length, extent.page_size)
        except OSError as refusal:
            raise explained(refusal) from refusal
        return _sorted_out(counts, extent, fd, when)


def _of_process(pid: int) -> Placement:
    # Not move_pages: it would be asked for each address that is mapped, page or not, and a
    # process maps terabytes that it never touches. The kernel's walk leaves those out.
    when = time.time()
    nodes = {node: size // PAGESIZE for node, size in bytes_by_node(pid).items()}
    return Placement(nodes, 0, 0, 0, PAGESIZE, when)


def _sorted_out(counts: dict[int, int], extent: Extent, fd: int | HasFileno | None, when: float) -> Placement:
    nodes = {node: n for node, n in counts.items() if node >= 0}
    # In a mapping -EFAULT is the page of zeros, which is nobody's.
    zeros, missing = counts.pop(-errno.EFAULT, 0), counts.pop(-errno.ENOENT, 0)
    unknown = sum(counts.values()) - sum(nodes.values())
    unmapped: int | None = 0
    if missing and extent.page_size == PAGESIZE:
        unmapped = _unmapped_base(extent, missing)
    elif missing:
        unmapped = _unmapped_huge(extent, sum(nodes.values()), missing, fd)
    if unmapped is None:
        return Placement(nodes, zeros, 0, unknown + missing, extent.page_size, when)
    return Placement(nodes, zeros + missing - unmapped, unmapped, unknown, extent.page_size, when)


def _unmapped_base(extent: Extent, missing: int) -> int | None:
    """How many of the *missing* pages exist; None where a filter refuses to tell."""
    try:
        return min(missing, _numa.count_unmapped(extent.address, extent.length))
    except OSError as refusal:
        if refusal.errno not in (errno.EPERM, errno.ENOSYS):
            raise
        return None


def _unmapped_huge(extent: Extent, here: int, missing: int, fd: int | HasFileno | None) -> int | None:
    """How many of the *missing* pages the file has; None where that cannot be told."""
    if fd is None:
        return None
    about = os.stat(fd if isinstance(fd, int) else fd.fileno())
    held = about.st_blocks * 512 // extent.page_size
    if held <= here:
        return 0
    # More than this mapping shows: its other pages are among the missing, if it covers the file.
    return held - here if about.st_size <= extent.length and held - here <= missing else None


def explained(refusal: OSError) -> OSError:
    """*refusal* of move_pages(2), as PlacementError where a filter or the kernel's build is the cause."""
    if refusal.errno in (errno.EPERM, errno.ENOSYS):
        return placement_error(refusal, "move_pages")
    return refusal
