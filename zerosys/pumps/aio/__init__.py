"""Pumps for asyncio and uvloop: the same promises, and no thread or timer for each.

Thousands run at once on a bounded number of pipes (:class:`PipePool`). Sockets, pipes and
terminals are watched by the loop; files, which it cannot watch, move in slices of 50 ms on
a few threads. Whatever ends a pump, CancelledError too, carries ``moved``, ``stranded`` and ``side``.
"""

from __future__ import annotations

from zerosys.pumps.aio.both_ways import relay
from zerosys.pumps.aio.one_way import pump
from zerosys.pumps.aio.pool import PipePool

__all__ = ["PipePool", "pump", "relay"]
