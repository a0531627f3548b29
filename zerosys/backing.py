"""The nameless file under a region: which one was to be had, and with which pages."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from fcntl import F_GETFL, fcntl
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from zerosys._descriptor import Descriptor, own
from zerosys._memfd import (
    F_SEAL_FUTURE_WRITE,
    F_SEAL_GROW,
    F_SEAL_SEAL,
    F_SEAL_SHRINK,
    F_SEAL_WRITE,
    add_seals,
    get_seals,
    memfd_create,
)
from zerosys.errors import Unsupported
from zerosys.handle import Particulars
from zerosys.names import SHM, open_unnamed
from zerosys.sizes import show_size

_THP = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_POOLS = Path("/sys/kernel/mm/hugepages")

BASE_PAGE = os.sysconf("SC_PAGESIZE")
HUGE_PAGES = {"2M": 2 << 20, "1G": 1 << 30}
PAGES = ("auto", "base", "thp", *HUGE_PAGES)
SOURCES = ("memfd", "tmpfs", "hugetlbfs", "file")


class Backing(NamedTuple):
    """What a region's memory is made of.

    ``source`` is "memfd"; "tmpfs" or "hugetlbfs" for memory with a name; "tmpfs" also for an
    unlinked file where memfd_create is refused; "file" for a foreign descriptor. ``pages`` is
    "base", "thp", "2M" ... and ``page_size`` the bytes of one page as the kernel maps it; ``huge_bytes``
    are those in huge pages when the region was made; ``sealed``: nobody can change the
    file's size, so no touch of the memory can send a signal.
    """

    source: str
    pages: str
    page_size: int
    huge_bytes: int
    sealed: bool

    def __str__(self) -> str:
        seal = "sealed" if self.sealed else "not sealed"
        if self.pages == "thp":
            return f"{self.source}, {show_size(self.huge_bytes)} in transparent huge pages, {seal}"
        return f"{self.source}, {self.pages} pages of {show_size(self.page_size)}, {seal}"


def huge_label(page_size: int) -> str:
    """The short name of a huge page size: 2097152 is "2M"."""
    return show_size(page_size).replace(" ", "").removesuffix("iB")


def thp_size() -> int:
    """The bytes of a transparent huge page. Raises Unsupported without them."""
    try:
        return int(_THP.read_text())
    except FileNotFoundError:
        raise Unsupported(
            errno.EOPNOTSUPP,
            f"pages='thp': this kernel has no transparent huge pages ({_THP} is absent); use pages='base'",
        ) from None


def granule(pages: str) -> int:
    """The bytes that a region with *pages* is rounded up to.

    Raises Unsupported for pages that this machine does not offer.
    """
    if pages == "thp":
        return thp_size()
    huge = HUGE_PAGES.get(pages, 0)
    if huge and not (_POOLS / f"hugepages-{huge >> 10}kB").is_dir():
        offered = ", ".join(huge_label(n) for n in offered_huge_pages()) or "none"
        raise Unsupported(
            errno.EOPNOTSUPP,
            f"pages={pages!r}: this machine offers huge pages of {offered}; use one of these, 'thp' or "
            "'base'",
        )
    return huge or BASE_PAGE


def open_backing(size: int, pages: str, mode: int, path: str | None = None) -> tuple[Descriptor, str, bool]:
    """A new file of *size* bytes: its descriptor, its source, whether it is sealed.

    With *path* it can be given that name later, and so cannot be sealed.
    """
    huge = HUGE_PAGES.get(pages, 0)
    if path:
        source, fd = "hugetlbfs" if huge else "tmpfs", open_unnamed(os.path.dirname(path))
    else:
        source, fd = _open(huge)
    try:
        os.fchmod(fd.fileno(), mode)
        os.ftruncate(fd.fileno(), size)
        if source == "memfd":
            add_seals(fd, F_SEAL_SHRINK | F_SEAL_GROW)
    except BaseException:
        fd.close()
        raise
    return fd, source, source == "memfd"


def _open(huge: int) -> tuple[str, Descriptor]:
    try:
        return "memfd", own(memfd_create, "zerosys", huge_page=huge)
    except OSError as refusal:
        if refusal.errno != errno.ENOSYS:
            raise
        if huge:
            raise Unsupported(
                refusal.errno,
                f"{refusal.strerror}: without it huge pages need a name in a hugetlbfs mount; use "
                "pages='base'",
            ) from refusal
    return "tmpfs", open_unnamed(SHM)


def offered_huge_pages() -> Iterator[int]:
    """The huge page sizes of this machine in bytes, whether or not any page is reserved."""
    for pool in sorted(_POOLS.glob("hugepages-*kB")):
        yield int(pool.name.removeprefix("hugepages-").removesuffix("kB")) << 10


def best_pages(size: int, nodes: Collection[int] | None) -> str:
    """What "auto" means for *size* bytes: hugetlb if the pools of *nodes* cover it now, else base."""
    from zerosys.limits import Headroom

    for label, huge in HUGE_PAGES.items():
        if size >= huge and (_POOLS / f"hugepages-{huge >> 10}kB").is_dir():
            try:
                Headroom(nodes, huge_page=huge).require(-(-size // huge) * huge)
            except OSError:
                continue  # the pool is too small
            return label
    return "base"


class Found(NamedTuple):
    """What a foreign descriptor turned out to be."""

    size: int
    populated: bool
    source: str
    sealed: bool


def inspect(fd: int, told: Particulars | None, *, read_only: bool, unsealed: bool) -> Found:
    """Look at a descriptor before any byte behind it is touched; *told* is what its handle says.

    Raises ValueError or PermissionError as SharedRegion.attach() does.
    """
    about = os.fstat(fd)
    if not S_ISREG(about.st_mode) or not about.st_size:
        raise ValueError(f"descriptor {fd} is no shared memory: a regular file of at least 1 byte is needed")
    seals = _seals(fd)
    sealed = seals is not None and bool(seals & F_SEAL_SHRINK)
    if not sealed and not unsealed:
        can = seals is not None and not seals & F_SEAL_SEAL
        remedy = (
            "have its owner call add_seals(fd, Seal.SHRINK | Seal.GROW), or" if can else "it takes no seals;"
        )
        raise ValueError(
            "the memory is not sealed against shrinking, so a peer could truncate it and touching it be "
            f"SIGBUS: {remedy} pass unsealed=True to trust every peer"
        )
    if not read_only:
        _check_writable(fd, seals or 0)
    if told and told.size > about.st_size:
        raise ValueError(f"the handle says {told.size} bytes and its descriptor has {about.st_size}")
    named = seals is None or (seals & F_SEAL_SEAL and not sealed)  # a name, or one it could have had
    source = told.source if told and told.source in SOURCES else "file" if named else "memfd"
    return Found(about.st_size, about.st_blocks * 512 >= about.st_size, source, sealed)


def found_by_name(about: os.stat_result) -> Found:
    """What inspect() would say of a file that has a name, and was opened as it is to be mapped."""
    return Found(about.st_size, about.st_blocks * 512 >= about.st_size, "file", False)


def _seals(fd: int) -> int | None:
    """The seals of *fd*; None for a file that cannot have any."""
    try:
        return get_seals(fd)
    except OSError as refusal:
        if refusal.errno != errno.EINVAL:
            raise
        return None


def _check_writable(fd: int, seals: int) -> None:
    if fcntl(fd, F_GETFL) & os.O_ACCMODE != os.O_RDWR:
        raise PermissionError(
            errno.EACCES, f"descriptor {fd} is open for reading only: attach with read_only=True"
        )
    if seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE):
        raise PermissionError(
            errno.EPERM, f"descriptor {fd} is sealed against writing: attach with read_only=True"
        )
