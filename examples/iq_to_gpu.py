"""Radio samples from another process to a GPU: overlapped copies, a spectrum, and which modulation it is."""

from importlib.util import find_spec
from multiprocessing import get_context
from typing import SupportsInt

import numpy
from modulations import BINS, BLOCK, LEVELS, TURN, Found, analyse, blocks, decide

from zerosys import StreamRing, cuda
from zerosys.ring import StreamReader


def produce(ring: StreamRing, kind: str) -> None:
    with ring.writer() as writer:
        for block in blocks(kind):
            writer.write(block, 60)


def on_device(reader: StreamReader, ring: StreamRing, found: list[Found]) -> str:
    import cupy

    turn = cupy.asarray(TURN)
    there = []  # what stays on the device until the end

    def compute(source: object, _: object, stream: SupportsInt) -> None:
        with cupy.cuda.ExternalStream(int(stream)):
            there.append(analyse(cupy, cupy.asarray(source), turn))

    with cuda.register(ring, 0), cuda.expect_no_staging():
        stats = cuda.Pipeline(reader, compute, items=BLOCK, device=0, strict=True, timeout=60).run()
    found += [(cupy.asnumpy(spectrum), cupy.asnumpy(moments)) for spectrum, moments in there]
    return f"{stats.bytes_in:,} bytes to cuda:0, none staged, {stats.overlap:.2f} engines busy"


def on_processor(reader: StreamReader, found: list[Found]) -> str:
    while window := reader.peek(BLOCK, 60):
        with window:
            found.append(analyse(numpy, numpy.asarray(window), TURN))
    return f"{len(found) * BLOCK * 8:,} bytes seen in place, no device"


def main(kind: str) -> None:
    found: list[Found] = []
    gpu = bool(cuda.memory_model()) and find_spec("cupy") is not None
    with StreamRing.create("4MiB", "c8", node="cuda:0" if gpu else None, strict=False) as ring:
        with ring.reader(start="oldest") as reader:
            get_context("spawn").Process(target=produce, args=(ring, kind)).start()
            told = on_device(reader, ring, found) if gpu else on_processor(reader, found)
    plain = [analyse(numpy, block, TURN) for block in blocks(kind)]
    for ours, theirs in zip(sum(found, ()), sum(plain, ()), strict=True):
        assert numpy.allclose(ours, theirs, rtol=1e-3, atol=1e-2 * abs(theirs).max())
    assert decide(found) == decide(plain) == kind
    strongest = numpy.sum([spectrum for spectrum, _ in found], axis=0).argmax()
    print(f"{kind}: {told}; equal to numpy's, strongest at bin {strongest} of {BINS}")


if __name__ == "__main__":
    for modulation in LEVELS:
        main(modulation)
