"""Radio samples from another process to a GPU: overlapped copies, a spectrum, and which modulation it is."""

from importlib.util import find_spec
from multiprocessing import get_context

import numpy

from zerosys import StreamRing, cuda

BLOCK, BLOCKS, BINS = 1 << 15, 8, 256
QAM = [(a + b * 1j) / 10**0.5 for a in (-3, -1, 1, 3) for b in (-3, -1, 1, 3)]
LEVELS = {"BPSK": [-1, 1], "QPSK": [1, 1j, -1, -1j], "QAM16": QAM}
CUMULANT = {"BPSK": 2.0, "QPSK": 1.0, "QAM16": 0.68}  # |C40| of each at power 1
TURN = numpy.exp(-0.5j * numpy.pi * numpy.arange(BLOCK)).astype("c8")  # takes off a carrier at rate / 4


def blocks(kind):
    random = numpy.random.default_rng(7)
    for _ in range(BLOCKS):
        noise = random.normal(0, 0.05, (BLOCK, 2)) @ [1, 1j]
        yield ((random.choice(LEVELS[kind], BLOCK // 4).repeat(4) + noise) / TURN).astype("c8")


def produce(ring, kind):
    with ring.writer() as writer:
        for block in blocks(kind):
            writer.write(block, 60)


def analyse(xp, x, turn):
    """The spectrum, and the moments of the symbols; the same lines for numpy and CuPy."""
    y = x * turn
    return (abs(xp.fft.fft(x.reshape(-1, BINS))) ** 2).sum(0), xp.stack([(y**4).mean(), (y**2).mean()])


def decide(found):
    fourth, second = numpy.mean([moments for _, moments in found], axis=0)
    return min(CUMULANT, key=lambda kind: abs(CUMULANT[kind] - abs(fourth - 3 * second**2)))


def on_device(reader, ring, found):
    import cupy

    turn = cupy.asarray(TURN)

    def compute(source, _, stream):
        with cupy.cuda.ExternalStream(int(stream)):
            found.append(analyse(cupy, cupy.asarray(source), turn))

    with cuda.register(ring, 0), cuda.expect_no_staging():
        stats = cuda.Pipeline(reader, compute, items=BLOCK, device=0, strict=True, timeout=60).run()
    found[:] = [(spectrum.get(), moments.get()) for spectrum, moments in found]
    return f"{stats.bytes_in:,} bytes to cuda:0, none staged, {stats.overlap:.2f} engines busy"


def on_processor(reader, found):
    while window := reader.peek(BLOCK, 60):
        with window:
            found.append(analyse(numpy, numpy.asarray(window), TURN))
    return f"{len(found) * BLOCK * 8:,} bytes seen in place, no device"


def main(kind):
    found, gpu = [], bool(cuda.memory_model()) and find_spec("cupy") is not None
    with StreamRing.create("4MiB", "c8", node="cuda:0" if gpu else None, strict=False) as ring:
        with ring.reader(start="oldest") as reader:
            get_context("spawn").Process(target=produce, args=(ring, kind)).start()
            told = on_device(reader, ring, found) if gpu else on_processor(reader, found)
    plain = [analyse(numpy, block, TURN) for block in blocks(kind)]
    for ours, theirs in zip(sum(found, ()), sum(plain, ()), strict=True):
        assert numpy.allclose(ours, theirs, rtol=1e-3, atol=1e-2 * abs(theirs).max())
    assert decide(found) == decide(plain) == kind
    print(f"{kind}: {told}; equal to numpy's, strongest at bin {sum(s for s, _ in found).argmax()} of {BINS}")


if __name__ == "__main__":
    for modulation in LEVELS:
        main(modulation)
