"""libnuma's own parser of nodes and CPUs, by ctypes: the referee of ours. It may speak on stderr."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache


class _Bitmask(ctypes.Structure):
    _fields_ = (("size", ctypes.c_ulong), ("words", ctypes.POINTER(ctypes.c_ulong)))


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libnuma.so.1")
    library.numa_available()
    for name in (
        "numa_parse_nodestring",
        "numa_parse_nodestring_all",
        "numa_parse_cpustring",
        "numa_parse_cpustring_all",
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = [ctypes.c_char_p], ctypes.POINTER(_Bitmask)
    library.numa_bitmask_isbitset.argtypes = [ctypes.POINTER(_Bitmask), ctypes.c_uint]
    library.numa_bitmask_free.argtypes = [ctypes.POINTER(_Bitmask)]
    return library


def _parsed(name: str, text: str) -> frozenset[int] | None:
    mask = getattr(_library(), name)(text.encode())
    if not mask:
        return None
    has = _library().numa_bitmask_isbitset
    found = frozenset(bit for bit in range(mask.contents.size) if has(mask, bit))
    _library().numa_bitmask_free(mask)
    return found


def nodes(text: str, *, allowed_only: bool = False) -> frozenset[int] | None:
    """The nodes that libnuma reads in *text*; None where it refuses."""
    return _parsed("numa_parse_nodestring" if allowed_only else "numa_parse_nodestring_all", text)


def cpus(text: str, *, allowed_only: bool = False) -> frozenset[int] | None:
    """The CPUs that libnuma reads in *text*; None where it refuses."""
    return _parsed("numa_parse_cpustring" if allowed_only else "numa_parse_cpustring_all", text)
