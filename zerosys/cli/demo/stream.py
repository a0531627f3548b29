"""The IQ stream that the demo makes, and what can be read off one: cu8, interleaved unsigned I and Q."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FFT = 4096
SEED = 2026
# Amplitude by frequency in bins of the FFT, so that a block of FFT samples has whole periods.
TONES = {410: 60.0, -943: 25.0, 1270: 10.0}
STRONGEST = max(TONES, key=TONES.__getitem__) / FFT
_BLOCK = 1 << 20


def make(size: int) -> IO[bytes]:
    """A nameless file of *size* bytes of tones in noise, the same on every run.

    It lies in shared memory where there is room, else among the temporary files, and is
    gone when it is closed, however the process ends.
    """
    file = tempfile.TemporaryFile(dir=_roomy(size), buffering=0)
    try:
        for block in _blocks(size):
            view = memoryview(block)
            while view:
                view = view[file.write(view) :]
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _roomy(size: int) -> str | None:
    memory = "/dev/shm"
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 * size:
        return memory
    return None


def _blocks(size: int) -> Any:
    import numpy as np

    samples = np.arange(FFT)
    signal = sum(a * np.exp(2j * np.pi * k * samples / FFT) for k, a in TONES.items())
    tile = np.empty(2 * FFT, "u1")
    tile[0::2], tile[1::2] = np.rint(120 + signal.real), np.rint(120 + signal.imag)
    tones = np.tile(tile, _BLOCK // tile.size)
    noise = np.random.PCG64(SEED)
    for at in range(0, size, _BLOCK):
        # 0 to 15 in each sample: raw bits, for they are the same in every version of numpy.
        yield (tones + (noise.random_raw(_BLOCK // 8).view("u1") >> 4))[: size - at]


class Checksum:
    """The sum of the little-endian 64-bit words of a stream, however it is cut into pieces.

    It touches every byte at the speed of memory, so that it can be part of what is timed.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._sum = 0

    def add(self, piece: Any) -> None:
        """Add the next *piece*, a buffer of bytes."""
        import numpy as np

        view = memoryview(piece).cast("B")
        head = min(-self.bytes % 8, len(view))
        self._add_odd(view[:head])
        words = (len(view) - head) // 8
        if words:
            self._sum += int(np.frombuffer(view, "<u8", words, head).sum(dtype="u8"))
        self.bytes += 8 * words
        self._add_odd(view[head + 8 * words :])

    def _add_odd(self, view: memoryview) -> None:
        for byte in view:
            self._sum += byte << 8 * (self.bytes % 8)
            self.bytes += 1

    @property
    def value(self) -> int:
        """The sum of what came so far, modulo 2**64."""
        return self._sum % 2**64


def describe(data: NDArray[np.uint8]) -> dict[str, float | int | None]:
    """Samples, mean power (dB below full scale) and strongest tone (as a share of the sample rate)."""
    import numpy as np

    samples = data[: data.size // 2 * 2].reshape(-1, 2)
    if not len(samples):
        return {"samples": 0, "power_db": None, "peak": None}
    power = 0.0
    for at in range(0, len(samples), 1 << 20):
        part = samples[at : at + (1 << 20)].astype("f4") - 127.5
        power += float(np.vdot(part, part))
    power_db = 10 * np.log10(max(power / len(samples), 1e-12) / 127.5**2)
    return {"samples": len(samples), "power_db": round(float(power_db), 2), "peak": _peak(samples)}


def _peak(samples: NDArray[np.uint8]) -> float | None:
    import numpy as np

    if len(samples) < FFT:
        return None
    window = np.hanning(FFT)
    spectrum = np.zeros(FFT)
    for at in np.linspace(0, len(samples) - FFT, 64).astype(int):
        part = samples[at : at + FFT].astype("f4")
        block = part[:, 0] + 1j * part[:, 1]
        spectrum += np.abs(np.fft.fft((block - block.mean()) * window)) ** 2
    return float(np.fft.fftfreq(FFT)[int(spectrum.argmax())])
