"""Decode Mode S (aircraft transponders, 1090 MHz) from 2 million samples a second, in numpy.

python examples/mode_s.py [RECORDING.cu8]     without one, a stream that we modulate ourselves
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zerosys.ring.samples import SampleFormat

PREAMBLE, SHORT, LONG = 16, 56, 112  # samples; bits: two samples each, the first is higher for a 1
SPAN = PREAMBLE + 2 * LONG
PULSES, GAPS = [0, 2, 7, 9], [1, 3, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15]  # of a preamble, in samples
BITS = {11: SHORT, 17: LONG}  # the downlink formats whose checksum needs no address that is known already


def remainders(bits: int) -> NDArray[np.uint32]:
    """What each bit of a message of so many adds to its CRC-24, the message's own checksum included."""
    table = [1]
    while len(table) < bits:
        table.append((table[-1] << 1) ^ (0x1FFF409 if table[-1] & 0x800000 else 0))
    return np.array(table[::-1], np.uint32)


TABLES = {bits: remainders(bits) for bits in (SHORT, LONG)}


class Decoder:
    """Finds messages of formats 11 and 17 whose checksum is right, however the stream is cut into blocks."""

    def __init__(self) -> None:
        self._rest, self._busy = np.empty(0, np.float32), 0  # busy: samples of a message found already

    def feed(self, samples: NDArray[np.complex64]) -> list[str]:
        """Take the next *samples*; return the messages that begin far enough before their end, as hex."""
        power = np.concatenate([self._rest, samples.real**2 + samples.imag**2])
        starts = max(0, len(power) - SPAN + 1)
        found = list(self._messages(power, starts)) if starts else []
        self._rest, self._busy = power[starts:], max(0, self._busy - starts)
        return found

    def _messages(self, power: NDArray[np.float32], starts: int) -> Iterator[str]:
        windows = np.lib.stride_tricks.sliding_window_view(power, SPAN)
        gaps = np.max([power[at : at + starts] for at in GAPS], axis=0)
        likely = np.flatnonzero(np.all([power[at : at + starts] > gaps for at in PULSES], axis=0))
        data = windows[likely, PREAMBLE:]
        ones = data[:, 0::2] > data[:, 1::2]
        kinds = np.packbits(ones[:, :5], axis=1)[:, 0] >> 3
        for at, kind, bits in zip(likely.tolist(), kinds.tolist(), ones, strict=True):
            message = bits[: BITS.get(kind, 0)]
            if at < self._busy or not len(message):
                continue
            if not np.bitwise_xor.reduce(TABLES[len(message)][message]):
                self._busy = at + PREAMBLE + 2 * len(message)
                yield np.packbits(message).tobytes().hex()


if __name__ == "__main__":
    from mode_s_stream import stream

    recorded = Path(sys.argv[1]).read_bytes() if len(sys.argv) > 1 else stream(messages=20)
    messages = Decoder().feed(SampleFormat.parse("cu8").complex_of(recorded))
    print(*messages, f"{len(messages)} messages in {len(recorded) // 2:,} samples", sep="\n")
