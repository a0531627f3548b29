"""Modulate Mode S messages into noise, as an RTL-SDR would have received them: unsigned bytes, 2 MS/s.

python examples/mode_s_stream.py [FILE]       how many there are; the stream itself into FILE
"""

import random
import sys

import numpy as np
from mode_s import BITS, PREAMBLE, PULSES, TABLES, Decoder
from numpy.typing import NDArray

from zerosys.ring.samples import SampleFormat

TONE = 0.125  # of the sample rate: a carrier beside the messages, for the spectrum to find


def message(seed: int) -> NDArray[np.bool_]:
    """The bits of a message of format 11 or 17 with a right checksum."""
    chance = random.Random(seed)
    kind = chance.choice(sorted(BITS))
    table = TABLES[BITS[kind]]
    bits = np.array([chance.random() < 0.5 for _ in table])
    bits[:5] = [kind >> place & 1 for place in range(4, -1, -1)]
    checksum = int(np.bitwise_xor.reduce(table[:-24][bits[:-24]]))
    bits[-24:] = [checksum >> place & 1 for place in range(23, -1, -1)]
    return bits


def pulses(bits: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The preamble and *bits*, two samples a bit."""
    made = np.zeros(PREAMBLE + 2 * len(bits), np.float32)
    made[PULSES] = 1
    made[PREAMBLE:] = np.stack([bits, ~bits], axis=1).ravel()
    return made


def stream(messages: int = 1000, gap: int = 700) -> bytes:
    """So many different *messages* of format 11 or 17, about *gap* samples apart, as cu8."""
    rng = np.random.default_rng(1090)
    parts = []
    for number in range(messages):
        parts += [np.zeros(rng.integers(gap // 2, gap * 3 // 2), np.float32), pulses(message(number))]
    envelope = np.concatenate([*parts, np.zeros(1024, np.float32)])
    samples = 0.6 * envelope * np.exp(2j * np.pi * rng.random(len(envelope)))
    samples += 0.05 * np.exp(2j * np.pi * TONE * np.arange(len(envelope)))
    samples += 0.02 * (rng.standard_normal(len(envelope)) + 1j * rng.standard_normal(len(envelope)))
    both = np.stack([samples.real, samples.imag], axis=1)
    return np.clip(np.rint(both * 127.5 + 127.5), 0, 255).astype(np.uint8).tobytes()


if __name__ == "__main__":
    made = stream()
    if len(sys.argv) > 1:
        with open(sys.argv[1], "wb") as file:
            file.write(made)
    heard = Decoder().feed(SampleFormat.parse("cu8").complex_of(made))
    sent = [np.packbits(message(number)).tobytes().hex() for number in range(1000)]
    assert heard == sent, "every message is heard, in order"
    print(f"{len(made) // 2:,} samples with {len(heard):,} messages, all heard again")
