"""numpy arrays over lent memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


def array_over(
    memory: Any,
    size: int,
    dtype: DTypeLike,
    shape: SupportsIndex | Sequence[SupportsIndex],
    offset: SupportsIndex,
) -> NDArray[Any]:
    """An array of *dtype* and *shape* over the *size* bytes of the buffer *memory* from *offset* on.

    *memory* starts at a page. One length may be -1. Raises ValueError where it does not fit.
    """
    import numpy

    kind = numpy.dtype(dtype)
    lengths = [index(n) for n in shape] if isinstance(shape, Iterable) else [index(shape)]
    begin = index(offset)
    if kind.hasobject:
        raise ValueError(
            f"dtype {kind} holds pointers to Python objects, which mean nothing in another process"
        )
    if not kind.itemsize:
        raise ValueError(f"dtype {kind} has items of 0 bytes: give it a length")
    if not 0 <= begin <= size or begin % kind.alignment:
        raise ValueError(
            f"offset must be a multiple of {kind.alignment} for dtype {kind}, 0 to {size}, not {begin}"
        )
    known = math.prod(n for n in lengths if n != -1)
    if lengths.count(-1) > 1 or any(n < -1 for n in lengths):
        raise ValueError(f"shape must have lengths >= 0 and at most one -1, not {shape}")
    room = (size - begin) // kind.itemsize
    if -1 in lengths:
        lengths[lengths.index(-1)] = room // known if known else 0
    count = math.prod(lengths)
    if count > room:
        raise ValueError(
            f"an array of shape {tuple(lengths)} and dtype {kind} takes {count * kind.itemsize} bytes, and "
            "from offset "
            f"{begin} there are {size - begin}"
        )
    if not count:
        return numpy.empty(lengths, kind)
    return numpy.frombuffer(memory, kind, count, begin).reshape([*lengths, *kind.shape])
