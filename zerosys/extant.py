"""The pages that a file of memory has, by node: counted without making, reading or touching any."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator
from mmap import PAGESIZE

from zerosys._mmap import MAP_NORESERVE, MAP_SHARED, PROT_READ, Mapping
from zerosys.whereabouts import placement

# What is mapped at once: page tables, which a cgroup pays for, stay small beside a large file.
_WINDOW = 64 << 20


def nodes_of(fd: int, about: os.stat_result, page: int) -> Counter[int]:
    """The pages in memory of the file *fd*, of *page* bytes each, by the node on which they lie.

    Only pages that the file has are mapped, read-only, since the kernel tells the node of no
    others; holes stay holes, and what is swapped out stays there (in a file that we may write:
    of others mincore(2) does not tell). The file may be truncated meanwhile: its pages are
    then missing from the count, as are those of a sparse file of huge pages, whose holes
    cannot be told.
    """
    found = Counter[int]()
    if page > PAGESIZE and about.st_blocks * 512 < about.st_size:
        return found
    try:
        at = 0
        while ranges := _data(fd, at, about.st_size, page):
            begin, at = ranges[0][0], ranges[-1][1]
            length = min(at, about.st_size) - begin
            with Mapping(
                fd, length, offset=begin, flags=MAP_SHARED | MAP_NORESERVE, protection=PROT_READ
            ) as window:
                for first, last in ranges:
                    _map_in(window, first - begin, last - first)
                found.update(placement(window).nodes)
    except (OSError, ValueError):
        pass  # truncated, or the kernel does not tell: what was counted counts
    return found


def _data(fd: int, at: int, size: int, page: int) -> list[tuple[int, int]]:
    """The ranges from *at* on that have pages, as far as one window reaches; whole pages."""
    found: list[tuple[int, int]] = []
    limit = size
    while at < limit:
        try:
            first = os.lseek(fd, at, os.SEEK_DATA) // page * page
            at = -(-os.lseek(fd, first, os.SEEK_HOLE) // page) * page
        except OSError as refusal:
            if refusal.errno == errno.ENXIO:  # nothing but a hole follows
                break
            raise
        if not found:
            limit = min(size, first + max(_WINDOW, page))
        if first < limit:
            found.append((first, min(at, -(-limit // page) * page)))
    return found


def _map_in(window: Mapping, offset: int, length: int) -> None:
    """Map those pages of a part of *window* that are in memory."""
    if window.page_size > PAGESIZE:
        window.populate(write=False, offset=offset, length=length)  # never swapped; mincore(2) cannot tell
        return
    for first, count in _in_memory(window, offset, length):
        window.populate(write=False, offset=first, length=count)


def _in_memory(window: Mapping, offset: int, length: int) -> Iterator[tuple[int, int]]:
    """The parts that are in memory, found by halving: whole segments mostly are, or are not."""
    there = window.resident(offset=offset, length=length)
    if there >= length:
        yield offset, length
    elif there:
        half = length // (2 * PAGESIZE) * PAGESIZE
        yield from _in_memory(window, offset, half)
        yield from _in_memory(window, offset + half, length - half)
