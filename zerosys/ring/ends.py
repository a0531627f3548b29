"""Writers and readers as ring.writer() and ring.reader() make them."""

from __future__ import annotations

from zerosys import _ring_reader, _ring_writer


class StreamWriter(_ring_writer.StreamWriter):
    __doc__ = _ring_writer.StreamWriter.__doc__


class MessageWriter(_ring_writer.MessageWriter):
    __doc__ = _ring_writer.MessageWriter.__doc__


class StreamReader(_ring_reader.StreamReader):
    __doc__ = _ring_reader.StreamReader.__doc__


class MessageReader(_ring_reader.MessageReader):
    __doc__ = _ring_reader.MessageReader.__doc__
