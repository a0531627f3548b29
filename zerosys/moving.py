"""Moving the pages of any buffer to a node, checked page by page."""

from __future__ import annotations

import errno
import os
import time
from operator import index
from typing import TYPE_CHECKING

from zerosys import _numa, pinned
from zerosys.errors import MoveTimeout, PlacementError
from zerosys.extent import Extent, Memory, pages_of
from zerosys.flags import MoveFlag
from zerosys.policy import why_not
from zerosys.refusal import may_move_all
from zerosys.selection import one_node
from zerosys.timeouts import waiting
from zerosys.whereabouts import HasFileno, Placement, explained, placement

if TYPE_CHECKING:
    from zerosys.nodes import Spec

#: Between two looks at the clock: about 2 ms of moving base pages.
SLICE = 4 << 20


def move_to(
    memory: Memory,
    node: Spec,
    *,
    fd: int | HasFileno | None = None,
    timeout: float | None = None,
    offset: int = 0,
) -> Placement:
    """Move each page that holds *memory* to *node* (1, "cuda:0"), and look where it lies then.

    Pages that other mappings share are moved too where CAP_SYS_NICE allows it. Raises
    PlacementError if a page that exists refused: its text counts them by cause, with the
    remedy, ``pages`` has the counts, and what moved stays moved; likewise if pages exist
    that this process has not mapped. Pages that do not exist yet are no refusal: they go
    where the policy says. *fd* is as for placement(). See move_pages(2).

    With *timeout*, in seconds, the pages go in slices of 4 MiB (at least a page), and
    MoveTimeout comes after the one in which the time was up; its ``offset`` says where to
    go on: *offset* leaves out the bytes before it. The look at all pages at the end comes on top.
    Raises ValueError for a *timeout* below 0 and an *offset* that is not whole pages of the memory.
    """
    deadline = None if timeout is None else time.monotonic() + waiting(timeout)
    target = one_node(node)
    with pages_of(memory) as extent:
        pinned.refuse_moving(extent.address, extent.length)
        try:
            if target not in _numa.mems_allowed():
                raise PlacementError(errno.ENODEV, f"move_pages: {why_not(frozenset([target]))}")
            _move(extent.distinct, target, offset, deadline)
        except PlacementError:
            raise
        except OSError as refusal:
            if refusal.errno == errno.ENOMEM:
                raise _full(memory, target) from refusal
            raise explained(refusal) from refusal
        where = placement(memory, fd=fd)
    if where.unmapped:
        raise PlacementError(
            errno.EFAULT,
            f"move_pages: {where.unmapped} pages exist that this process has not mapped, so they did not "
            f"move to node {target}: populate the mapping first (by reading), and move again",
            pages=where.nodes,
        )
    return where


def _move(extent: Extent, node: int, offset: int, deadline: float | None) -> None:
    """Try every page from *offset* on, with as much right as there is; raise for those that refused."""
    page, offset = extent.page_size, index(offset)
    if not 0 <= offset <= extent.length or offset % page:
        raise ValueError(f"offset must be whole pages of {page} bytes, up to {extent.length}, not {offset}")
    step = extent.length if deadline is None else max(SLICE, page)
    privileged, counts = may_move_all(), dict[int, int]()
    while offset < extent.length:
        size = min(step, extent.length - offset)
        flag = MoveFlag.MOVE_ALL if privileged else MoveFlag.MOVE
        try:
            found = _numa.move_range(extent.address + offset, size, page, node, flag)
        except PermissionError:
            if not privileged:
                raise
            # The capability may be one of a user namespace, which does not count here.
            privileged = False
            continue
        for status, n in found.items():
            counts[status] = counts.get(status, 0) + n
        offset += size
        if deadline is not None and offset < extent.length and time.monotonic() >= deadline:
            _check_moved(counts, node, privileged)  # a page that refused is not tried again
            raise _out_of_time(counts, node, offset, extent.length)
    _check_moved(counts, node, privileged)


def _out_of_time(counts: dict[int, int], node: int, offset: int, length: int) -> MoveTimeout:
    return MoveTimeout(
        errno.ETIMEDOUT,
        f"move_pages: the time was up after {offset} of {length} bytes ({counts.get(node, 0)} pages are "
        f"on node {node}): go on with offset={offset}",
        pages=counts,
        offset=offset,
    )


def _check_moved(counts: dict[int, int], node: int, privileged: bool) -> None:
    """Raise for pages that exist and are not on *node*."""
    quiet = (node, -errno.ENOENT, -errno.EFAULT)
    stayed = {status: n for status, n in counts.items() if status not in quiet}
    if not stayed:
        return
    total = sum(stayed.values())
    causes = []
    for status, n in sorted(stayed.items()):
        what = f"still on node {status}" if status >= 0 else os.strerror(-status)
        causes.append(f"{n}: {what}{_help(status, privileged)}")
    raise PlacementError(
        -min(stayed) if min(stayed) < 0 else errno.EBUSY,
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
