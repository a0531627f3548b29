"""The kernel's flag words as types: members or together, and print by name."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from zerosys import _splice


class SpliceFlag(IntFlag):
    """What splice, tee and vmsplice may be told. See splice(2)."""

    MOVE = _splice.SPLICE_F_MOVE
    NONBLOCK = _splice.SPLICE_F_NONBLOCK
    MORE = _splice.SPLICE_F_MORE
    GIFT = _splice.SPLICE_F_GIFT


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
