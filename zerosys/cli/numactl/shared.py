"""Shared memory whose policy is set from outside: a System V segment, or a file in a tmpfs or hugetlbfs."""

from __future__ import annotations

import errno
import os
import sys

from zerosys import _mmap, _numa, _sysv

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Iterator

    from zerosys.cli.numactl.wish import Wish


class Attached:
    """*length* bytes of shared memory from *offset*, mapped here, in pages of *page* bytes."""

    def __init__(
        self, holder: _mmap.Mapping | _sysv.Segment, start: int, offset: int, length: int, page: int
    ) -> None:
        self._holder, self._start = holder, start  # where in the holder's memory it begins
        self.address = holder.address + start
        self.offset, self.length, self.page = offset, length, page

    def touch(self, write: bool) -> None:
        """Make its pages exist, or have them mapped here."""
        self._holder.populate(write=write, offset=self._start, length=self.length)

    def bind(self, mode: int, members: frozenset[int], strict: bool) -> None:
        flags = _numa.MPOL_MF_STRICT if strict else 0
        _numa.mbind(self.address, self.length, mode, members, flags)

    def policies(self) -> Iterator[tuple[int, int, int, frozenset[int]]]:
        """Its policies: where each begins and ends, mode and nodes."""
        runs = _numa.policy_runs(self.address, self.length, self.page)
        ends = [begin for begin, _, _ in runs[1:]] + [self.length]
        for (begin, mode, members), end in zip(runs, ends, strict=True):
            yield begin, end, mode, members

    def nodes(self) -> Iterator[tuple[int, int, int]]:
        """Where its pages lie: where each run begins and ends, and its node or a negative errno."""
        runs = _numa.node_runs(self.address, self.length, self.page)
        ends = [begin for begin, _ in runs[1:]] + [self.length]
        for (begin, node), end in zip(runs, ends, strict=True):
            yield begin, end, node


def attach_segment(path: str, wish: Wish) -> Attached:
    """The segment whose key the file *path* stands for; made, key file too, where it is not there."""
    flags = _sysv.SHM_HUGETLB if wish.huge else 0
    page = _huge_page() if wish.huge else os.sysconf("SC_PAGE_SIZE")
    key = _key(path, wish)
    try:
        id = _found(key, path, wish, flags)
    except FileNotFoundError:
        if not wish.length:
            raise ValueError("need a --length to create a sysv shared memory segment") from None
        size = wish.length + wish.offset
        _window(wish, size, page, "--shm")  # nothing is made that could not be used
        _say(
            f"Creating shared memory segment {path} id {wish.project} mode {wish.mode:04o} "
            f"length {size / (1 << 20):.0f}MB"
        )
        id = _made(key, size, _sysv.IPC_CREAT | wish.mode | flags)
    segment = _sysv.Segment(id)
    length = _window(wish, segment.size, page, "--shm")
    return Attached(segment, wish.offset, wish.offset, length, page)


def _found(key: int, path: str, wish: Wish, flags: int) -> int:
    """The number of the segment that is there; FileNotFoundError where none is."""
    try:
        return _sysv.shmget(key, wish.length, flags)
    except OSError as refusal:
        if refusal.errno != errno.EINVAL:
            raise
        id = _sysv.shmget(key, 0, flags)
        raise ValueError(
            f"the segment of {path} has {_sysv.shm_size(id)} bytes, and {wish.length} are asked for: give a "
            f"smaller --length, or remove it: ipcrm -m {id}"
        ) from refusal


def _made(key: int, size: int, flags: int) -> int:
    try:
        return _sysv.shmget(key, size, flags)
    except OSError as refusal:
        if refusal.errno != errno.ENOMEM or not flags & _sysv.SHM_HUGETLB:
            raise
        page, free = _huge_page(), _free_huge_pages()
        need = -(-size // page)
        if need <= free:
            raise
        why = (
            f"{need} huge pages of {page >> 10} kB asked, {free} are free: reserve more by zerosys hugepages"
        )
        raise OSError(errno.ENOMEM, f"shmget: {os.strerror(errno.ENOMEM)}; {why}") from refusal


def _free_huge_pages() -> int:
    from zerosys.sysfs import number

    return number(f"/sys/kernel/mm/hugepages/hugepages-{_huge_page() >> 10}kB/free_hugepages") or 0


def _key(path: str, wish: Wish) -> int:
    name = os.fsencode(path)
    try:
        return _sysv.ftok(name, wish.project)
    except FileNotFoundError:
        _say(f"Creating shm key file {path} mode {wish.mode:04o}")
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, wish.mode))
        return _sysv.ftok(name, wish.project)


def attach_file(path: str, wish: Wish) -> Attached:
    """The file *path*; made, or made longer, where --length says so."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        if not wish.length:
            raise ValueError("need a --length to create a shared file") from None
        fd = os.open(path, os.O_RDWR | os.O_CREAT, wish.mode)
    try:
        page = _mmap.page_size_of(fd)
        size = os.fstat(fd).st_size
        if wish.length and wish.length + wish.offset > size:
            _window(wish, wish.length + wish.offset, page, "--file")
            os.ftruncate(fd, wish.length + wish.offset)
            size = wish.length + wish.offset
        length = _window(wish, size, page, "--file")
        return Attached(_mmap.Mapping(fd, length, offset=wish.offset), 0, wish.offset, length, page)
    finally:
        os.close(fd)


def _window(wish: Wish, size: int, page: int, option: str) -> int:
    """How many bytes the wish means of *size*; ValueError where it reaches out of them or cuts a page."""
    length = wish.length or size - wish.offset
    if length <= 0 or wish.offset + length > size:
        raise ValueError(
            f"{wish.length or 'all'} bytes from offset {wish.offset} are not within the {size} bytes of it: "
            f"give --length and --offset that are, before {option}"
        )
    if length % page or wish.offset % page:
        raise ValueError(
            f"policy region not page aligned: --length {length} and --offset {wish.offset} must be multiples "
            f"of its pages of {page} bytes"
        )
    return length


def _huge_page() -> int:
    from zerosys.sysfs import sizes

    size = sizes("/proc/meminfo").get("Hugepagesize")
    if not size:
        raise OSError(errno.ENOSYS, "this kernel offers no huge pages: leave out --huge")
    return size


def _say(text: str) -> None:
    print(f"numactl: {text}", file=sys.stderr)
