"""Bytes from files, pipes, sockets and memory to one another, without a copy, and the truth about it."""

from zerosys.pumps.both_ways import RelayResult, relay
from zerosys.pumps.fanning import FanOutResult, SinkResult
from zerosys.pumps.memory import give, receive
from zerosys.pumps.pumping import pump
from zerosys.pumps.result import PumpResult
from zerosys.pumps.zerocopy import ZeroCopySend, send_zerocopy

__all__ = [
    "FanOutResult",
    "PumpResult",
    "RelayResult",
    "SinkResult",
    "ZeroCopySend",
    "give",
    "pump",
    "receive",
    "relay",
    "send_zerocopy",
]
