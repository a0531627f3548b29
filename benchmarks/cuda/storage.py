"""How fast does a file reach the device, beside a raw direct read and kvikio without GPUDirect Storage?"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import cupy

from benchmarks.common import Bar, Row
from benchmarks.cuda.question import GIB, Question, pattern, timed
from zerosys import SharedRegion
from zerosys.cuda import storage

_CHUNK = 4 << 20


def _file(words: object, size: int) -> Path:
    """A file of the words on a real disk, none of it in the page cache."""
    handle, path = tempfile.mkstemp(
        prefix="zerosys-bench-", dir=os.environ.get("ZEROSYS_BENCH_DIR", "/var/tmp")
    )
    with os.fdopen(handle, "wb") as file:
        file.write(memoryview(words).cast("B"))  # type: ignore[arg-type]
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, size, os.POSIX_FADV_DONTNEED)
    return Path(path)


def _raw(path: Path, place: memoryview, size: int) -> None:
    """What the disk gives to one thread that reads *path* past the page cache."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        for at in range(0, size, _CHUNK):
            assert os.preadv(fd, [place[at : at + _CHUNK]], at) == min(_CHUNK, size - at)
    finally:
        os.close(fd)


def build(quick: bool) -> Question:
    """Rows in seconds a file; what arrived is compared each time."""
    size = 64 << 20 if quick else GIB
    words = pattern(size // 4, 3)
    path = _file(words, size)
    region = SharedRegion.create(size, pages="base")
    place = memoryview(region)
    there = cupy.zeros(size // 4, "u4")
    right = cupy.asarray(words)
    ways: set[str] = set()

    def from_disk(work: Callable[[], object]) -> float:
        with open(path, "rb") as file:  # what the row before left in the page cache would be no disk
            os.posix_fadvise(file.fileno(), 0, size, os.POSIX_FADV_DONTNEED)
        return timed(work)

    def to_device(lanes: int) -> float:
        there.fill(0)

        def work() -> None:
            ways.add(storage.read(path, there, depth=lanes, chunk=_CHUNK).path)

        seconds = from_disk(work)
        assert bool((there == right).all()), "the device has other bytes"
        return seconds

    def raw() -> float:
        return from_disk(lambda: _raw(path, place, size))

    def in_place() -> float:
        seconds = from_disk(lambda: storage.read(path, region))
        assert (region.array("u4") == words).all(), "the region has other bytes"
        return seconds

    rows = [
        Row("storage.read() to the device, 4 lanes", lambda: to_device(4)),
        Row("storage.read() to the device, 1 lane", lambda: to_device(1)),
        Row("storage.read() into a region", in_place),
        Row("raw O_DIRECT read, one thread", raw),
    ]
    bars = [Bar("storage.read() to the device, 4 lanes", "raw O_DIRECT read, one thread", 1 / 0.9)]
    rows += _kvikio(path, there, right, from_disk)
    if len(rows) > 4:
        bars.append(Bar("storage.read() to the device, 4 lanes", "kvikio, compatibility mode"))

    def close() -> None:
        print(f"  the way of storage.read(): {', '.join(sorted(ways))}")
        place.release()
        region.__exit__(None, None, None)
        storage.trim()
        path.unlink()

    return Question(
        "storage", f"A file of {size // mmap.PAGESIZE} pages to the device", "s", rows, bars, close=close
    )


def _kvikio(
    path: Path, there: cupy.ndarray, right: cupy.ndarray, from_disk: Callable[[Callable[[], object]], float]
) -> list[Row]:
    try:
        import kvikio
        import kvikio.defaults
    except ImportError as missing:
        print(f"  kvikio is not here: {missing}")
        return []
    os.environ["KVIKIO_COMPAT_MODE"] = "ON"

    def measure() -> float:
        there.fill(0)

        def work() -> None:
            with kvikio.CuFile(str(path), "r") as file:
                assert file.read(there) == there.nbytes

        seconds = from_disk(work)
        assert bool((there == right).all()), "the device has other bytes"
        return seconds

    return [Row("kvikio, compatibility mode", measure)]
