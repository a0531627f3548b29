"""Files to and from memory of a device, past the page cache; the result says which way it went.

Where GPUDirect Storage takes the file, disk and device exchange the bytes themselves. Else direct I/O
goes through slots of registered host memory, several at a time, while others are copied.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from operator import index
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

from zerosys.cuda import backend, copies, lanes, streams
from zerosys.cuda.devices import Device, working
from zerosys.cuda.direct_file import BLOCK, DirectFile
from zerosys.cuda.fences import Fence, follow
from zerosys.cuda.gds import GdsFile
from zerosys.cuda.memory import End
from zerosys.sizes import parse_size

Way: TypeAlias = Literal["cufile", "direct", "buffered"]


class StorageResult(NamedTuple):
    """``bytes`` that were read or written, ``staged`` of them through slots of registered host memory.

    ``path``: "cufile", disk and device by themselves; "direct", past the page cache; "buffered",
    through it, where the file system knows no direct I/O or host memory does not lie so.
    """

    bytes: int
    path: Way
    staged: int
    seconds: float


def read(
    path: str | os.PathLike[str],
    into: Any,
    *,
    offset: SupportsIndex = 0,
    count: SupportsIndex | None = None,
    stream: Any = None,
    device: Device | None = None,
    chunk: SupportsIndex | str = "4MiB",
    depth: int = 4,
) -> StorageResult:
    """Read *count* bytes (None: as many as *into* has) of the file from *offset* to the start of *into*.

    *into* is memory of a device (``__cuda_array_interface__``: a DeviceBlock, a torch or CuPy array) or
    any writable buffer. The result's ``bytes`` are fewer where the file ends. Neither *offset* nor
    *count* need be whole blocks. Device memory goes in pieces of *chunk* bytes, by *depth* threads with
    two registered slots each, on *stream*, after what that and the array's own were given; all is there on
    return. Host memory is read in place, past the page cache where its address and *offset* lie alike in
    a block of 4096.

    Raises OSError of the file, CudaError, ValueError for a *count* that *into* has no room for.
    After an error or Ctrl-C what *into* holds is undefined. See open(2), O_DIRECT; cuFileRead.
    """
    begin = time.perf_counter()
    target, at = End(into, written=True), _offset(offset)
    with DirectFile(path, os.O_RDONLY) as file:
        size = min(_count(count, target), max(0, file.size - at))
        if not target.on_device:
            return _told(_read_host(file, target, size, at), size, 0, begin)
        if not size:
            return _told("direct", 0, 0, begin)
        handle = streams.handle_of(stream)
        with working(handle, device) as context:
            follow(handle, target.stream, context)
            streams.synchronize(handle)
            if _by_gds(file, target.address, size, at, writing=False):
                return _told("cufile", size, 0, begin)
            _read_device(file, target.address, size, at, handle, parse_size(chunk), depth)
            return _told("direct" if file.direct is not None else "buffered", size, size, begin)


def write(
    path: str | os.PathLike[str],
    source: Any,
    *,
    offset: SupportsIndex = 0,
    count: SupportsIndex | None = None,
    stream: Any = None,
    device: Device | None = None,
    chunk: SupportsIndex | str = "4MiB",
    depth: int = 4,
) -> StorageResult:
    """Write the first *count* bytes (None: all) of *source* to the file from *offset* on.

    The file is made if it is not there, and never cut short; the rest is as for read(). Work that
    *stream* was given before comes first. Blocks at the ends of the range that are not whole go
    through the page cache. On return the file has the bytes; that the disk has them, fsync() says.
    """
    begin = time.perf_counter()
    origin, at = End(source, written=False), _offset(offset)
    size = _count(count, origin)
    with DirectFile(path, os.O_RDWR | os.O_CREAT) as file:
        if not origin.on_device:
            return _told(_write_host(file, origin, size, at), size, 0, begin)
        if not size:
            return _told("direct", 0, 0, begin)
        handle = streams.handle_of(stream)
        with working(handle, device) as context:
            follow(handle, origin.stream, context)
            streams.synchronize(handle)
            if _by_gds(file, origin.address, size, at, writing=True):
                return _told("cufile", size, 0, begin)
            _write_device(file, origin.address, size, at, handle, parse_size(chunk), depth)
            return _told("direct" if file.direct is not None else "buffered", size, size, begin)


def _told(way: Way, size: int, staged: int, begin: float) -> StorageResult:
    return StorageResult(size, way, staged, time.perf_counter() - begin)


def _offset(offset: SupportsIndex) -> int:
    at = index(offset)
    if at < 0:
        raise ValueError(f"offset must be 0 or more, not {at}")
    return at


def _count(count: SupportsIndex | None, end: End) -> int:
    if count is None:
        return int(end.size)
    size = index(count)
    if not 0 <= size <= end.size:
        raise ValueError(f"count must be 0 to the {end.size} bytes of the memory, not {size}")
    return size


def _lies_alike(file: DirectFile, end: End, at: int, size: int) -> bool:
    """Whether whole blocks of the file lie on whole blocks of the memory."""
    return file.direct is not None and (end.address - at) % BLOCK == 0 and size >= 2 * BLOCK


def _read_host(file: DirectFile, target: End, size: int, at: int) -> Way:
    assert target.lease is not None
    place = target.lease.cast("B")[:size]
    head = min(-at % BLOCK, size)
    body = (size - head) // BLOCK * BLOCK
    for begin, end in ((0, head), (head, head + body), (head + body, size)):
        file.read(place[begin:end], at + begin)
    return "direct" if _lies_alike(file, target, at, size) else "buffered"


def _write_host(file: DirectFile, origin: End, size: int, at: int) -> Way:
    assert origin.lease is not None
    file.write(origin.lease.cast("B")[:size], at)
    return "direct" if _lies_alike(file, origin, at, size) else "buffered"


def _by_gds(file: DirectFile, address: int, size: int, at: int, *, writing: bool) -> bool:
    """Have cuFile do all of it; False where it does not take the file, and nothing was done."""
    if file.direct is None:
        return False
    try:
        gds = GdsFile(file.direct)
    except OSError:
        return False
    with gds:
        done = 0
        while done < size:
            move = gds.write if writing else gds.read
            moved = move(address + done, size - done, at + done)
            if moved <= 0:
                raise OSError(f"cuFile stopped after {done} of {size} bytes at {at + done}")
            done += moved
    return True


def _pieces(at: int, size: int, chunk: int) -> Iterator[lanes.Piece]:
    """The range in pieces that end on a multiple of *chunk*, which is whole blocks."""
    begin, end = at, at + size
    while begin < end:
        upto = min(end, (begin // chunk + 1) * chunk)
        yield begin, upto - begin
        begin = upto


def _whole_blocks(chunk: int) -> int:
    return -(-chunk // BLOCK) * BLOCK


def _read_device(
    file: DirectFile, address: int, size: int, at: int, handle: int, chunk: int, depth: int
) -> None:
    def carry(piece: lanes.Piece, slot: int, view: memoryview) -> Fence:
        begin, length = piece
        skip = begin % BLOCK  # the slot begins where the block does
        got = file.read(view[: _whole_blocks(skip + length)], begin - skip) - skip
        if got < length:
            raise OSError(f"the file was cut short: {max(got, 0)} of {length} bytes are left at {begin}")
        copies.enqueue(address + begin - at, slot + skip, length, handle)
        return Fence(handle)

    _carry(at, size, chunk, depth, carry)
    streams.synchronize(handle)


def _write_device(
    file: DirectFile, address: int, size: int, at: int, handle: int, chunk: int, depth: int
) -> None:
    def carry(piece: lanes.Piece, slot: int, view: memoryview) -> None:
        begin, length = piece
        skip = begin % BLOCK
        copies.enqueue(slot + skip, address + begin - at, length, handle)
        Fence(handle).wait()
        file.write(view[skip : skip + length], begin)

    _carry(at, size, chunk, depth, carry)


def _carry(at: int, size: int, chunk: int, depth: int, carry: lanes.Carry) -> None:
    if depth < 1:
        raise ValueError(f"depth must be 1 or more, not {depth}")
    chunk = _whole_blocks(chunk)
    pieces = list(_pieces(at, size, chunk))
    context = backend.load().current()
    assert context is not None  # working() made one current
    lanes.run(pieces, chunk, min(depth, len(pieces)), context, carry)


def trim() -> int:
    """Give the slots of registered memory that are kept for the next time back; the bytes."""
    return lanes.trim()
