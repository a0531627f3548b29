"""Bytes from files, pipes, sockets and memory to one another, without a copy, and the truth about it."""

from zerosys.pumps.both_ways import RelayResult, relay
from zerosys.pumps.pumping import pump
from zerosys.pumps.result import PumpResult

__all__ = ["PumpResult", "RelayResult", "pump", "relay"]
