"""Copies between host and device, each in as many pieces as there are registrations under it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from zerosys import pinned
from zerosys.cuda import backend, streams
from zerosys.cuda.backend import Backend
from zerosys.cuda.devices import context_for, working
from zerosys.cuda.fences import follow
from zerosys.cuda.memory import End


def enqueue(dst: int, src: int, size: int, stream: int) -> None:
    """Put a copy of *size* bytes on *stream*, cut where the driver would refuse a single one."""
    cuda = backend.load()
    borders = {*_borders(cuda, dst, size), *_borders(cuda, src, size), size}
    begin = 0
    for end in sorted(borders):
        cuda.copy(dst + begin, src + begin, end - begin, stream)
        begin = end


def _borders(cuda: Backend, address: int, size: int) -> Iterator[int]:
    """The offsets inside the range at which one registration ends or begins."""
    if pinned.find(address, size) is None:
        yield from _borders_of_others(cuda, address, size)
    for row in pinned.overlapping(address, size):
        for begin, length in row.what.ranges:
            for border in (begin - address, begin + length - address):
                if 0 < border < size:
                    yield border


def _borders_of_others(cuda: Backend, address: int, size: int) -> Iterator[int]:
    """Those of memory that others registered, as far as its first and its last byte tell."""
    for at in (address, address + size - 1):
        there = cuda.pointer(at)
        if there.size:
            for border in (there.start - address, there.start + there.size - address):
                if 0 < border < size:
                    yield border


def _device_of(*addresses: int) -> int | None:
    """The device that has memory at one of *addresses*, for a thread that has no context of its own."""
    cuda = backend.load()
    if cuda.current() is not None:
        return None
    found = [pinned.find(address, 1) for address in addresses]
    known = [row.device for row in found if row is not None]
    known += [there.device for there in map(cuda.pointer, addresses) if there.device >= 0]
    return known[0] if known else None


class Copied(int):
    """The bytes that a copy() moved; ``path`` says from what to what, "registered to cuda:0"."""

    path: str = ""

    @classmethod
    def by(cls, size: int, path: str) -> Self:
        """*size* bytes by *path*."""
        made = cls(size)
        made.path = path
        return made


def _place(address: int) -> tuple[str, int]:
    """What memory that is, in a word, and the device that it is of, or -1."""
    if pinned.find(address, 1) is not None:
        return "registered", -1
    there = backend.load().pointer(address)
    if there.kind == "pageable":
        return "host", -1
    if there.kind == "host":
        return "registered", -1
    return ("managed", -1) if there.kind == "managed" else (f"cuda:{there.device}", there.device)


def copy(dst: Any, src: Any, stream: Any = None) -> Copied:
    """Copy all of *src* to the start of *dst* on *stream*, and wait for it; the bytes, with their ``path``.

    Each is a buffer, or has ``__cuda_array_interface__`` (a DeviceView, a block of a pool, a torch or CuPy
    array): on the host, registered or not, on a device, or the one on one device and the other on another.
    What such an array's own stream was given comes before.
    Between two devices it goes directly where the machine can (``path`` ends in "peer"), else through
    registered slots ("host slot"). "host" memory, which is not registered, the driver stages.

    Memory that was registered in several ranges, or that borders on others', is copied in pieces: the
    driver refuses one copy across a border. Raises ValueError for a *dst* that is too short or may not be
    written, CudaError. See cuMemcpyAsync, cuMemcpyPeerAsync.
    """
    target, source = End(dst, written=True), End(src, written=False)
    if source.size > target.size:
        raise ValueError(f"{source.size} bytes do not fit into the {target.size} of dst")
    if not source.size:
        return Copied.by(0, "nothing")
    (dst_place, dst_device), (src_place, src_device) = _place(target.address), _place(source.address)
    path, handle = f"{src_place} to {dst_place}", streams.handle_of(stream)
    with working(handle, _device_of(target.address, source.address)) as context:
        for end in (target, source):
            follow(handle, end.stream, context)
        if dst_device >= 0 and src_device >= 0 and dst_device != src_device:
            path = f"{path}, {_between(target, dst_device, source, src_device, handle)}"
        else:
            enqueue(target.address, source.address, source.size, handle)
            streams.synchronize(handle)
    return Copied.by(source.size, path)


def _between(target: End, dst_device: int, source: End, src_device: int, stream: int) -> str:
    from zerosys.cuda import peers

    contexts = context_for(dst_device), context_for(src_device)
    return peers.between(target.address, contexts[0], source.address, contexts[1], source.size, stream)
