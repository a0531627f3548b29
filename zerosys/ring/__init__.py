"""Streams of items or messages between processes, in shared memory that lies where you asked."""

from zerosys.ring.ends import MessageReader, MessageWriter, StreamReader, StreamWriter
from zerosys.ring.message import MessageRing
from zerosys.ring.stream import StreamRing

__all__ = [
    "MessageReader",
    "MessageRing",
    "MessageWriter",
    "StreamReader",
    "StreamRing",
    "StreamWriter",
]
