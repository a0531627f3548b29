"""Making a region's pages exist, on the right node, before anybody depends on them."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress

from zerosys._mmap import MADV_COLLAPSE, MADV_HUGEPAGE, Mapping
from zerosys.backing import BASE_PAGE, huge_label
from zerosys.errors import Unsupported
from zerosys.limits import Headroom
from zerosys.sizes import show_size
from zerosys.sysfs import lines, members

# Memory is compared with what is free before each step of this size, never only once:
# others take memory too while a large region fills.
STEP = 64 << 20
# Below this a thread costs more than it saves; past eight nothing was gained on 16 cores (Linux 6.18).
_WORTH_THREADS = 16 << 20
_MOST_THREADS = 8
# Threads that fault pages of one file into being wait for one another at the file's locks: four were as
# fast as sixteen. Where one thread allocates the pages first, zeroing and mapping them is left, which
# scales: 4 GiB in 0.6 s and not 0.9. With few threads two passes gain nothing.
_WORTH_ALLOCATING, _ALLOCATE_FROM = 256 << 20, 4
# A page that another CPU still holds in a list of its own does not collapse (EAGAIN), for a moment.
_TRIES, _PAUSE = 20, 0.001
# A policy that interleaves goes by the number of the base page. The seeds of successive huge pages
# are chosen so that these numbers are 0, 1, 2 ... modulo every divisor of this, which most
# sets of nodes have for their size: else all of a file could land on one node.
_TURN = 480


def cpus_near(nodes: Collection[int] | None) -> frozenset[int]:
    """The CPUs of *nodes*; empty for None and for nodes without CPUs."""
    folders = (f"/sys/devices/system/node/node{node}" for node in nodes or ())  # or none: one assumed node
    return frozenset().union(*(members(f"{folder}/cpulist", f"{folder}/cpumap") for folder in folders))


# The limits last found, for how many regions are made in a row; a process seldom changes its cgroup.
_RECENT_SECONDS = 1.0
_recent: dict[frozenset[int] | None, tuple[float, Headroom]] = {}


def _headroom(nodes: frozenset[int] | None) -> Headroom:
    """The limits that hold for *nodes*: found once a second, read at each question."""
    now = time.monotonic()
    when, found = _recent.get(nodes, (0.0, None))
    if found is None or now - when > _RECENT_SECONDS:
        if len(_recent) > 16:
            _recent.clear()
        found = Headroom(nodes)
        _recent[nodes] = now, found
    return found


def require(size: int, huge: int, nodes: frozenset[int] | None) -> None:
    """Raise OSError ENOMEM unless *nodes* have *size* bytes now.

    *huge* are the bytes of a huge page, from whose pools they come; 0 means base pages.
    Asked before the mapping is made, which reserves huge pages, but on no node in particular.
    """
    (Headroom(nodes, huge_page=huge) if huge else _headroom(nodes)).require(size)


def ran_out(error: OSError) -> bool:
    """Whether *error* says that pages of some kind were not to be had."""
    return error.errno in (errno.ENOMEM, errno.ENOSPC)


def _threads(size: int, cpus: Collection[int]) -> int:
    return min(_MOST_THREADS, len(cpus or os.sched_getaffinity(0))) if size >= _WORTH_THREADS else 1


def map_in(mapping: Mapping, *, write: bool) -> None:
    """Map pages that exist into this process, so that no later touch faults.

    *write* makes those that do not exist yet.
    """
    total = mapping.mapped_size
    if total <= STEP:
        mapping.populate(write=write)
        return
    threads = _threads(total, ())
    for offset in range(0, total, STEP):
        mapping.populate(write=write, threads=threads, offset=offset, length=min(STEP, total - offset))


def fill(
    mapping: Mapping,
    source: str,
    *,
    nodes: frozenset[int] | None = None,
    near: Collection[int] | None = None,
    thp: int = 0,
    force: bool = False,
) -> None:
    """Populate all of *mapping* by writing, by threads on the CPUs of the nodes *near*.

    *thp*, the size of a transparent huge page, gathers pages into such, where the kernel can;
    huge_bytes() tells. Contents stay. Unless *force*, the free memory of *nodes* (None: of the machine) and
    every cgroup limit is compared before the first step and between steps. Raises
    OSError ENOMEM or ENOSPC, with ``populated`` bytes, before any page is missed later.
    """
    page, total = mapping.page_size, mapping.mapped_size // (2 if mapping.mirror else 1)
    huge = page if page > BASE_PAGE else None
    cpus = cpus_near(near) if total >= _WORTH_THREADS else frozenset()
    threads = _threads(total, cpus)
    # A mapping of huge pages has its pages reserved already: require() asked before.
    headroom = None if force or huge else _headroom(nodes)
    if headroom:
        headroom.require(total)
    step = max(STEP, page)
    fd = None if thp or huge else _to_allocate(mapping, total, threads)
    for offset in range(0, total, step):
        length = min(step, total - offset)
        if headroom and offset:
            headroom.require(length)
        try:
            if thp and not _gather(mapping, offset, length, thp, threads):
                thp = 0
            if fd is not None:
                with suppress(OSError):  # populating tells better what ran out, and how far it got
                    os.posix_fallocate(fd, offset, length)
            mapping.populate(threads=threads, cpus=cpus or None, offset=offset, length=length)
        except Unsupported:
            raise
        except BaseException as error:
            done = offset + getattr(error, "populated", 0)
            if isinstance(error, OSError):
                raise _explained(error, source, huge, nodes, done, total) from error
            error.populated = done  # type: ignore[attr-defined]
            raise


def _to_allocate(mapping: Mapping, total: int, threads: int) -> int | None:
    """The descriptor of the file whose pages are to be allocated first; None where that gains nothing.

    The mapping is bound already: allocated before that, every page would lie wherever this thread
    runs. Never for hugetlb, whose fallocate knows no policy.
    """
    fileno = getattr(mapping, "fileno", None)
    if fileno is None or total < _WORTH_ALLOCATING or threads < _ALLOCATE_FROM:
        return None
    return int(fileno())


def _explained(
    error: OSError, source: str, huge: int | None, nodes: Collection[int] | None, done: int, total: int
) -> OSError:
    """EFAULT, which says nothing, as the error of whatever ran out."""
    number = error.errno or errno.EFAULT
    progress = f"after {show_size(done)} of {show_size(total)}"
    where = "" if nodes is None else f" on node {', '.join(map(str, sorted(nodes)))}"
    if number != errno.EFAULT:
        text = f"{error.strerror} {progress}"
    elif huge:
        number = errno.ENOMEM
        text = (
            f"populate: the pool of {huge_label(huge)} huge pages{where} ran out {progress}; reserve more: "
            f"echo N > /sys/devices/system/node/nodeN/hugepages/hugepages-{huge >> 10}kB/nr_hugepages, "
            "or use pages='base'"
        )
    elif source == "tmpfs":
        number = errno.ENOSPC
        text = (
            f"populate: the file system /dev/shm is full {progress}; enlarge it: "
            "mount -o remount,size=... /dev/shm"
        )
    else:
        number = errno.ENOMEM
        text = f"populate: no memory{where} {progress}"
    said = OSError(number, text)
    said.populated = done  # type: ignore[attr-defined]
    return said


def _gather(mapping: Mapping, offset: int, length: int, thp: int, threads: int) -> bool:
    """Make transparent huge pages of *thp* bytes in a part without pages; False: do not try the next.

    One base page in each is written, which puts it where the policy says, and MADV_COLLAPSE
    gathers the rest around it: holes are filled with zeros, on the node of what is there. So
    nothing is copied, and it takes a sixth of the time of populating all and collapsing that
    (Linux 6.18). Works on a sealed memfd even where shmem_enabled is "never" (Linux 6.1).
    Raises Unsupported on a kernel that cannot.
    """
    for index in range(offset // thp, (offset + length) // thp):
        seed = (1 - thp // BASE_PAGE) * index % _TURN
        mapping.populate(offset=index * thp + seed * BASE_PAGE, length=BASE_PAGE)
    share = -(-length // thp // threads) * thp
    parts = [(begin, min(share, offset + length - begin)) for begin in range(offset, offset + length, share)]
    if len(parts) == 1:
        return _collapse(mapping, offset, length)
    outcomes: list[bool | BaseException] = []

    def work(begin: int, size: int) -> None:
        try:
            outcomes.append(_collapse(mapping, begin, size))
        except BaseException as error:
            outcomes.append(error)

    _all_of([threading.Thread(target=work, args=part) for part in parts])
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return all(outcomes)


def _all_of(workers: Collection[threading.Thread]) -> None:
    """Run *workers* to their end, whatever comes meanwhile: they work on memory that may go afterwards."""
    interrupt: BaseException | None = None
    for worker in workers:
        try:
            worker.start()
        except RuntimeError:  # no more threads to be had: then by this one
            worker.run()
    for worker in workers:
        while worker.is_alive():
            try:
                worker.join()
            except BaseException as error:  # Ctrl-C: answered when they are done, in a moment
                interrupt = error
    if interrupt is not None:
        raise interrupt


def _collapse(mapping: Mapping, offset: int, length: int) -> bool:
    """Have the kernel gather a part into huge pages; False where it has no free huge block."""
    for _ in range(_TRIES):
        try:
            mapping.advise(MADV_COLLAPSE, offset=offset, length=length)
            return True
        except OSError as refusal:
            if refusal.errno == errno.EINVAL:
                raise Unsupported(
                    refusal.errno,
                    f"{refusal.strerror}: pages='thp' needs MADV_COLLAPSE (Linux 6.1) and huge pages not "
                    "switched off for this process; use pages='base'",
                ) from refusal
            if refusal.errno == errno.ENOMEM:
                return False  # no free huge block: huge_bytes() tells
            if refusal.errno not in (errno.EAGAIN, errno.EBUSY):
                raise
            time.sleep(_PAUSE)
    return True


def prefer_huge(mapping: Mapping) -> None:
    """Ask for huge pages at the first touch: cheaper than collapsing, where it is allowed."""
    try:
        mapping.advise(MADV_HUGEPAGE)
    except OSError as refusal:
        if refusal.errno != errno.EINVAL:  # a kernel without huge pages for shared memory
            raise


def huge_bytes(mapping: Mapping) -> int:
    """The bytes of *mapping* that this process has mapped by transparent huge pages."""
    first = f"{mapping.address:x}-"
    inside = False
    total = 0
    for line in lines("/proc/self/smaps"):
        head, _, rest = line.partition(" ")
        if not head.endswith(":"):  # the first line of a mapping: its addresses
            inside = head.startswith(first)
        elif inside and head in ("ShmemPmdMapped:", "AnonHugePages:", "FilePmdMapped:"):
            total += int(rest.split()[0]) << 10
    return total
