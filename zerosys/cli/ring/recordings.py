"""``zerosys ring record | play``: SigMF and raw files, out of rings and into them."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from zerosys.cli.ring.seeing import attached
from zerosys.ring import StreamRing, playing
from zerosys.ring.recording import DATA, META, Recording, SigMF, is_sigmf
from zerosys.ring.samples import SampleFormat


def record(chosen: argparse.Namespace, prog: str) -> int:
    """Write a ring's stream to a file; Ctrl-C ends it well, as the end of the stream does."""
    with ExitStack() as held:
        ring: Any = held.enter_context(attached(chosen.name))
        if ring.kind != "stream":
            raise ValueError(f"{chosen.name} carries {ring.kind}: record takes a stream of samples")
        path, notes = Path(chosen.file), None
        if is_sigmf(path):
            form = SampleFormat.parse(chosen.format) if chosen.format else SampleFormat.of(ring.dtype)
            notes = SigMF(path.with_suffix(META), form, chosen.rate, chosen.frequency)
            path = path.with_suffix(DATA)
        reader = held.enter_context(ring.reader("oldest" if chosen.oldest else "next"))
        file = held.enter_context(path.open("wb", buffering=0))
        broken: BaseException | None = None
        try:
            playing.record(reader, file.fileno(), chosen.n, timeout=chosen.timeout, notes=notes)
        except (KeyboardInterrupt, OSError) as stopped:
            broken = stopped
        size = os.fstat(file.fileno()).st_size
        done, lost = size // ring.item_size, reader.lost
        if notes:
            notes.write()
    _tell(chosen, {"file": str(path), "items": done, "bytes": size, "lost": lost}, "recorded")
    if broken and not isinstance(broken, KeyboardInterrupt):
        raise broken
    return 0


def play(chosen: argparse.Namespace, prog: str) -> int:
    """Send a file through a ring, one that is there or one that is made for it."""
    recording = Recording.find(chosen.file, format=chosen.format)
    rate = recording.rate if chosen.rate is None else chosen.rate
    rate = None if rate is None or math.isinf(rate) else rate
    with ExitStack() as held:
        ring, made = _ring_of(chosen, recording, held)
        with ring.writer() as writer:
            begun = time.monotonic()
            done = playing.play(recording, writer, rate=rate, repeat=chosen.repeat, timeout=chosen.timeout)
            seconds = time.monotonic() - begun
        if made:
            _wait_for_a_reader(ring, done, chosen.timeout)
    told = {"name": chosen.name, "items": done, "seconds": seconds, "format": recording.format.name}
    _tell(chosen, told, "played")
    return 0


def _ring_of(chosen: argparse.Namespace, recording: Recording, held: ExitStack) -> tuple[Any, bool]:
    try:
        return held.enter_context(attached(chosen.name)), False
    except FileNotFoundError:
        pass
    ring = StreamRing.create(
        chosen.capacity, recording.format.dtype, name=chosen.name, readers=chosen.readers, node=chosen.node
    )
    held.enter_context(ring)
    held.callback(ring.unlink)
    print(f"{chosen.name}: waiting for readers", file=sys.stderr, flush=True)
    return ring, True


def _wait_for_a_reader(ring: Any, items: int, timeout: float | None) -> None:
    """Until somebody has had all of it and nobody still reads: the name goes then."""
    begun = time.monotonic()
    while items:
        readers = ring.stat()["readers"]
        behind = any(reader["state"] == "alive" and reader["lag"] for reader in readers)
        if not behind and any(reader["items"] and not reader["lag"] for reader in readers):
            return
        if timeout is not None and time.monotonic() - begun > timeout:
            raise TimeoutError(f"nobody had read it all {timeout:g} s after its end")
        time.sleep(0.05)


def _tell(chosen: argparse.Namespace, told: dict[str, Any], verb: str) -> None:
    if chosen.json:
        print(json.dumps(told))
    else:
        lost = f", {told['lost']:,} lost" if told.get("lost") else ""
        print(f"{verb} {told['items']:,} items{lost}: {told.get('file') or told['name']}")
