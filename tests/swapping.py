"""Memory put out to the swap space of a guest."""

import time

from zerosys.region import SharedRegion

PAGEOUT = 21  # MADV_PAGEOUT


def swap_out(region: SharedRegion, offset: int, length: int) -> int:
    """Put some of *region*'s pages into swap, of those in the range; the bytes that are left in memory.

    The kernel frees a page only if it is written by the time that the next one is looked at: on
    a busy machine it may be none, and those that are not freed at once stay for long. They are
    taken back from the swap cache by touching them, and put out anew.
    """
    until = time.monotonic() + 60
    while True:
        region.advise(PAGEOUT, offset=offset, length=length)
        left = region.resident()
        if left < region.size or time.monotonic() > until:
            return left
        bytes(memoryview(region)[offset : offset + length : 4096])
