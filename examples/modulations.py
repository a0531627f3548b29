"""Which modulation a signal has: signals of three, their spectrum and moments, and the decision by them."""

from collections.abc import Iterator
from types import ModuleType

import numpy
from numpy.typing import NDArray

Samples = NDArray[numpy.complex64]
Found = tuple[NDArray[numpy.float32], Samples]  # a block's spectrum, and the moments of its symbols
BLOCK, BLOCKS, BINS = 1 << 15, 8, 256
QAM = [(a + b * 1j) / 10**0.5 for a in (-3, -1, 1, 3) for b in (-3, -1, 1, 3)]
LEVELS: dict[str, list[complex]] = {"BPSK": [-1, 1], "QPSK": [1, 1j, -1, -1j], "QAM16": QAM}
CUMULANT = {"BPSK": 2.0, "QPSK": 1.0, "QAM16": 0.68}  # |C40| of each at power 1
TURN = numpy.exp(-0.5j * numpy.pi * numpy.arange(BLOCK)).astype("c8")  # takes off a carrier at rate / 4


def blocks(kind: str) -> Iterator[Samples]:
    random = numpy.random.default_rng(7)
    for _ in range(BLOCKS):
        noise = random.normal(0, 0.05, (BLOCK, 2)) @ [1, 1j]
        yield ((random.choice(LEVELS[kind], BLOCK // 4).repeat(4) + noise) / TURN).astype("c8")


def analyse(xp: ModuleType, x: Samples, turn: Samples) -> Found:
    """The same lines for numpy and CuPy."""
    y = x * turn
    return (abs(xp.fft.fft(x.reshape(-1, BINS))) ** 2).sum(0), xp.stack([(y**4).mean(), (y**2).mean()])


def decide(found: list[Found]) -> str:
    fourth, second = numpy.mean([moments for _, moments in found], axis=0)
    return min(CUMULANT, key=lambda kind: abs(CUMULANT[kind] - abs(fourth - 3 * second**2)))


if __name__ == "__main__":
    for sent in LEVELS:
        assert decide([analyse(numpy, block, TURN) for block in blocks(sent)]) == sent
    print(f"{', '.join(LEVELS)}: {BLOCKS * BLOCK:,} samples of each, all told apart")
