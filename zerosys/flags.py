"""The kernel's flag words as types: members or together, and print by name."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from zerosys import _memfd, _mmap, _splice


class SpliceFlag(IntFlag):
    """What splice, tee and vmsplice may be told. See splice(2)."""

    MOVE = _splice.SPLICE_F_MOVE
    NONBLOCK = _splice.SPLICE_F_NONBLOCK
    MORE = _splice.SPLICE_F_MORE
    GIFT = _splice.SPLICE_F_GIFT


class MemfdFlag(IntFlag):
    """How memfd_create makes its file. See memfd_create(2)."""

    CLOEXEC = _memfd.MFD_CLOEXEC
    ALLOW_SEALING = _memfd.MFD_ALLOW_SEALING
    HUGETLB = _memfd.MFD_HUGETLB
    NOEXEC_SEAL = _memfd.MFD_NOEXEC_SEAL
    EXEC = _memfd.MFD_EXEC


class Seal(IntFlag):
    """What nobody may do to a file any more. See fcntl(2), F_ADD_SEALS."""

    SEAL = _memfd.F_SEAL_SEAL
    SHRINK = _memfd.F_SEAL_SHRINK
    GROW = _memfd.F_SEAL_GROW
    WRITE = _memfd.F_SEAL_WRITE
    FUTURE_WRITE = _memfd.F_SEAL_FUTURE_WRITE
    EXEC = _memfd.F_SEAL_EXEC


class Protection(IntFlag):
    """What may be done with mapped memory. See mmap(2)."""

    NONE = _mmap.PROT_NONE
    READ = _mmap.PROT_READ
    WRITE = _mmap.PROT_WRITE
    EXEC = _mmap.PROT_EXEC


class MapFlag(IntFlag):
    """How memory is mapped; huge page sizes stand above bit 26. See mmap(2)."""

    SHARED = _mmap.MAP_SHARED
    PRIVATE = _mmap.MAP_PRIVATE
    SHARED_VALIDATE = _mmap.MAP_SHARED_VALIDATE
    ANONYMOUS = _mmap.MAP_ANONYMOUS
    LOCKED = _mmap.MAP_LOCKED
    NORESERVE = _mmap.MAP_NORESERVE
    POPULATE = _mmap.MAP_POPULATE
    NONBLOCK = _mmap.MAP_NONBLOCK
    STACK = _mmap.MAP_STACK
    HUGETLB = _mmap.MAP_HUGETLB
    SYNC = _mmap.MAP_SYNC


class SyncFlag(IntFlag):
    """What msync does with changed pages. See msync(2)."""

    ASYNC = _mmap.MS_ASYNC
    INVALIDATE = _mmap.MS_INVALIDATE
    SYNC = _mmap.MS_SYNC


class Advice(IntEnum):
    """What the kernel is told about the use of pages. See madvise(2)."""

    NORMAL = _mmap.MADV_NORMAL
    RANDOM = _mmap.MADV_RANDOM
    SEQUENTIAL = _mmap.MADV_SEQUENTIAL
    WILLNEED = _mmap.MADV_WILLNEED
    DONTNEED = _mmap.MADV_DONTNEED
    FREE = _mmap.MADV_FREE
    REMOVE = _mmap.MADV_REMOVE
    DONTFORK = _mmap.MADV_DONTFORK
    DOFORK = _mmap.MADV_DOFORK
    MERGEABLE = _mmap.MADV_MERGEABLE
    UNMERGEABLE = _mmap.MADV_UNMERGEABLE
    HUGEPAGE = _mmap.MADV_HUGEPAGE
    NOHUGEPAGE = _mmap.MADV_NOHUGEPAGE
    DONTDUMP = _mmap.MADV_DONTDUMP
    DODUMP = _mmap.MADV_DODUMP
    WIPEONFORK = _mmap.MADV_WIPEONFORK
    KEEPONFORK = _mmap.MADV_KEEPONFORK
    COLD = _mmap.MADV_COLD
    PAGEOUT = _mmap.MADV_PAGEOUT
    POPULATE_READ = _mmap.MADV_POPULATE_READ
    POPULATE_WRITE = _mmap.MADV_POPULATE_WRITE
    DONTNEED_LOCKED = _mmap.MADV_DONTNEED_LOCKED
    COLLAPSE = _mmap.MADV_COLLAPSE
    HWPOISON = _mmap.MADV_HWPOISON
    SOFT_OFFLINE = _mmap.MADV_SOFT_OFFLINE
    GUARD_INSTALL = _mmap.MADV_GUARD_INSTALL
    GUARD_REMOVE = _mmap.MADV_GUARD_REMOVE


# The numbers below are written out and not taken from _numa, so that a script that
# splices does not load libnuma; the tests hold them against the headers.


class PolicyMode(IntEnum):
    """How a memory policy chooses among its nodes. See set_mempolicy(2)."""

    DEFAULT = 0
    PREFERRED = 1
    BIND = 2
    INTERLEAVE = 3
    LOCAL = 4
    PREFERRED_MANY = 5
    WEIGHTED_INTERLEAVE = 6


class PolicyFlag(IntFlag):
    """Or-ed into a mode: how its nodes are read when the cpuset changes. See set_mempolicy(2)."""

    NUMA_BALANCING = 1 << 13
    RELATIVE_NODES = 1 << 14
    STATIC_NODES = 1 << 15


class MoveFlag(IntFlag):
    """What mbind and move_pages do about pages that are there already. See mbind(2)."""

    STRICT = 1 << 0
    MOVE = 1 << 1
    MOVE_ALL = 1 << 2
