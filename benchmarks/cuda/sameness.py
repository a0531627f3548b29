"""Do mapped and staged memory give, bit for bit, what the plain way gives?"""

from __future__ import annotations

import hashlib
from typing import Any

import cupy

from benchmarks.cuda.question import pattern
from zerosys import SharedRegion, cuda

_WORK = cupy.ElementwiseKernel("", "uint32 x", "x = x * 2654435761u + (x >> 13)", "scramble")


def same_bytes(quick: bool) -> dict[str, str]:
    """The hash of the same kernel's result, by way; all are one."""
    count = (1 << 20) if quick else (64 << 20)
    words = pattern(count, 3)
    plain = cupy.asarray(words)
    _WORK(plain)
    found = {"plain": digest(cupy.asnumpy(plain))}
    with SharedRegion.create(count * 4) as region, cuda.register(region):
        region.array("u4")[:] = words
        found["mapped"] = through_a_view(region.array("u4"), staged=False)
    staged = words.copy()
    found["staged"] = through_a_view(staged, staged=True)
    with cuda.HostPool() as pool, pool.acquire(count * 4) as block:
        block.array("u4")[:] = words
        found["pool"] = through_a_view(block.array("u4"), staged=False)
    assert len(set(found.values())) == 1, found
    return found


def through_a_view(memory: Any, *, staged: bool) -> str:
    with cuda.DeviceView(memory, "inout") as view:
        assert view.staged == staged
        there = cupy.asarray(view)
        _WORK(there)
        del there
    return digest(memory)


def digest(words: Any) -> str:
    return hashlib.sha256(words.tobytes()).hexdigest()
