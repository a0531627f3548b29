"""Where the pages of any buffer lie, by asking and never by touching, and how to move them."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import PAGESIZE
from operator import index
from typing import Protocol

from zerosys import _numa
from zerosys.errors import PlacementError
from zerosys.extent import Extent, Memory, pages_of
from zerosys.flags import MoveFlag
from zerosys.policy import why_not
from zerosys.refusal import may_move_all, placement_error


class HasFileno(Protocol):
    def fileno(self) -> int: ...


@dataclass(frozen=True)
class Placement:
    """Where pages were, at ``time`` (seconds since the epoch), in pages of ``page_size`` bytes.

    ``absent`` pages do not exist yet, are swapped out, or are the one page of zeros that
    reading an untouched address shows. ``unmapped`` ones exist and belong to someone,
    but this process has not mapped them yet, and the kernel does not say where they
    lie: touch or populate them first. ``unknown`` are those of which not even that can
    be told: huge pages without *fd*, and pages that something holds at this moment.
    """

    nodes: Mapping[int, int]
    absent: int
    unmapped: int
    unknown: int
    page_size: int
    time: float

    @property
    def pages(self) -> int:
        return sum(self.nodes.values()) + self.absent + self.unmapped + self.unknown

    def all_on(self, nodes: int | frozenset[int]) -> bool:
        """Whether every page is known to lie on *nodes*."""
        wanted = {nodes} if isinstance(nodes, int) else nodes
        return not (self.absent or self.unmapped or self.unknown) and set(self.nodes) <= wanted


def placement(memory: Memory, *, fd: int | HasFileno | None = None) -> Placement:
    """Count the pages that hold *memory* by the node on which they lie; those of a mirror once.

    Asking creates no page, reads none, and maps none. *fd*, the file that all of *memory*
    maps, tells absent from unmapped for huge pages, where mincore(2) cannot. Raises
    PlacementError where move_pages(2) is refused. See move_pages(2).
    """
    with pages_of(memory) as whole:
        extent, when = whole.distinct, time.time()
        try:
            counts = _numa.count_statuses(extent.address, extent.length, extent.page_size)
        except OSError as refusal:
            raise _refused(refusal) from refusal
        return _sorted_out(counts, extent, fd, when)


def _sorted_out(counts: dict[int, int], extent: Extent, fd: int | HasFileno | None, when: float) -> Placement:
    nodes = {node: n for node, n in counts.items() if node >= 0}
    # In a mapping -EFAULT is the page of zeros, which is nobody's.
    zeros, missing = counts.pop(-errno.EFAULT, 0), counts.pop(-errno.ENOENT, 0)
    unknown = sum(counts.values()) - sum(nodes.values())
    unmapped: int | None = 0
    if missing and extent.page_size == PAGESIZE:
        unmapped = min(missing, _numa.count_unmapped(extent.address, extent.length))
    elif missing:
        unmapped = _unmapped_huge(extent, sum(nodes.values()), missing, fd)
    if unmapped is None:
        return Placement(nodes, zeros, 0, unknown + missing, extent.page_size, when)
    return Placement(nodes, zeros + missing - unmapped, unmapped, unknown, extent.page_size, when)


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


def move_to(memory: Memory, node: int, *, fd: int | HasFileno | None = None) -> Placement:
    """Move each page that holds *memory* to *node*, and look where it lies then.

    Pages that other mappings share are moved too where CAP_SYS_NICE allows it. Raises
    PlacementError if a page that exists refused: its text counts them by cause, with the
    remedy, ``pages`` has the counts, and what moved stays moved; likewise if pages exist
    that this process has not mapped. Pages that do not exist yet are no refusal: they go
    where the policy says. *fd* is as for placement(). See move_pages(2).
    """
    with pages_of(memory) as extent:
        try:
            if index(node) not in _numa.mems_allowed():
                raise PlacementError(errno.ENODEV, f"move_pages: {why_not(frozenset([node]))}")
            _move(extent.distinct, node)
        except PlacementError:
            raise
        except OSError as refusal:
            if refusal.errno == errno.ENOMEM:
                raise _full(memory, node) from refusal
            raise _refused(refusal) from refusal
        where = placement(memory, fd=fd)
    if where.unmapped:
        raise PlacementError(
            errno.EFAULT,
            f"move_pages: {where.unmapped} pages exist that this process has not mapped, so they did not "
            f"move to node {node}: populate the mapping first (by reading), and move again",
            pages=where.nodes,
        )
    return where


def _move(extent: Extent, node: int) -> None:
    """Try every page, with as much right as this thread has; raise for those that refused."""
    span = extent.address, extent.length, extent.page_size
    privileged = may_move_all()
    if privileged:
        try:
            _check_moved(_numa.move_range(*span, node, MoveFlag.MOVE_ALL), node, privileged)
            return
        except PermissionError:
            # The capability may be one of a user namespace, which does not count here.
            privileged = False
    _check_moved(_numa.move_range(*span, node, MoveFlag.MOVE), node, privileged)


def _check_moved(counts: dict[int, int], node: int, privileged: bool) -> None:
    """Raise for pages that exist and are not on *node*."""
    quiet = (node, -errno.ENOENT, -errno.EFAULT)
    refused = {status: n for status, n in counts.items() if status not in quiet}
    if not refused:
        return
    total = sum(refused.values())
    causes = []
    for status, n in sorted(refused.items()):
        what = f"still on node {status}" if status >= 0 else os.strerror(-status)
        causes.append(f"{n}: {what}{_help(status, privileged)}")
    raise PlacementError(
        -min(refused) if min(refused) < 0 else errno.EBUSY,
        f"move_pages: {total} of {sum(counts.values())} pages did not move to node {node} "
        f"({'; '.join(causes)})",
        pages=counts,
    )


def _full(memory: Memory, node: int) -> PlacementError:
    where = placement(memory)
    return PlacementError(
        errno.ENOMEM,
        f"move_pages: {where.pages - where.nodes.get(node, 0)} of {where.pages} pages did not move: "
        f"node {node} has no free page left: free memory there, or take another node",
        pages=where.nodes,
    )


def _help(status: int, privileged: bool) -> str:
    if status == -errno.EACCES and not privileged:
        return ", shared with another mapping, which only CAP_SYS_NICE may move"
    if status == -errno.ENOMEM:
        return ", the node has no free page: free memory there"
    if status == -errno.EBUSY:
        return ", held by a device, a lock or I/O: end that and try again"
    return ""


def _refused(refusal: OSError) -> OSError:
    if refusal.errno in (errno.EPERM, errno.ENOSYS):
        return placement_error(refusal, "move_pages")
    return refusal
