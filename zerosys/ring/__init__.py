"""Streams of items or messages between processes, in shared memory that lies where you asked."""

from zerosys.ring.message import MessageRing
from zerosys.ring.stream import StreamRing

__all__ = ["MessageRing", "StreamRing"]
