"""A recording of radio samples, played into a ring at its rate: one process records it, another decodes it.

python examples/iq_pipeline.py [FILE [FORMAT]]     SigMF, or raw cu8, ci16, cf32; default: our own stream
"""

import os
import sys
import tempfile
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from mode_s import Decoder
from mode_s_stream import stream

from zerosys import StreamRing
from zerosys.ring.playing import play, record
from zerosys.ring.recording import Recording
from zerosys.ring.samples import SampleFormat

BINS = 256


def recorder(ring: StreamRing, path: str, answer: Connection) -> None:
    with ring.reader(slot=0) as reader, open(path, "wb") as file:
        answer.send("listening")
        answer.send(record(reader, file.fileno()))


def decoder(ring: StreamRing, form: SampleFormat, answer: Connection) -> None:
    aircraft, power, messages, samples = Decoder(), np.zeros(BINS), [], 0
    with ring.reader(slot=1) as reader:
        answer.send("listening")
        while window := reader.peek_some():
            with window:
                block = form.complex_of(window)  # the one copy: to floats
            whole = block[: len(block) // BINS * BINS].reshape(-1, BINS)
            power += (np.abs(np.fft.fft(whole)) ** 2).sum(axis=0)
            messages += aircraft.feed(block)
            samples += len(block)
    peak = 1 + int(power[1:].argmax())  # bin 0 is the receiver's own offset
    answer.send((samples, messages, float(np.fft.fftfreq(BINS)[peak])))


def main(path: str, form: str | None, copy: str) -> None:
    played = Recording.find(path, format=form)
    rate = played.rate or 2e6
    with StreamRing.create("4MiB", played.format.dtype, readers=2) as ring:
        ends = [Pipe(), Pipe()]
        readers = [
            Process(target=recorder, args=(ring, copy, ends[0][1])),
            Process(target=decoder, args=(ring, played.format, ends[1][1])),
        ]
        for process, end in zip(readers, ends, strict=True):
            process.start()
            assert end[0].recv() == "listening"
        with ring.writer() as writer:
            sent = play(played, writer, rate=rate)
        kept, (heard, messages, peak) = (end[0].recv() for end in ends)
        for process in readers:
            process.join()
    assert sent == kept == heard == len(played), "nothing is lost"
    size = sent * played.format.dtype.itemsize
    assert Path(copy).read_bytes() == played.data.read_bytes()[played.offset :][:size]
    direct = Decoder().feed(played.format.complex_of(Path(copy).read_bytes()))
    assert messages == direct, "the far end hears what the file holds"
    print(*messages[-3:], sep="\n")
    form = played.format.name
    print(f"{sent:,} samples of {form} at {rate / 1e6:g} MS/s: {kept:,} recorded, {heard:,} decoded")
    print(f"{len(messages)} messages of formats 11 and 17; strongest carrier at {peak * rate / 1e3:+.1f} kHz")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) == 1:
            sys.argv.append(os.path.join(folder, "stream.cu8"))
            Path(sys.argv[1]).write_bytes(stream())
        main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None, os.path.join(folder, "copy"))
