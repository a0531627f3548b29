"""From one device's memory to another's: directly where the machine can, else through registered slots."""

from __future__ import annotations

from contextlib import ExitStack

from zerosys.cuda import backend, streams
from zerosys.cuda.backend import Context
from zerosys.cuda.host_pool import HostPool

_CHUNK = 16 << 20  # of a slot: large enough for the link, small enough to overlap both ways


def between(dst: int, dst_context: Context, src: int, src_context: Context, size: int, stream: int) -> str:
    """Copy between two devices, after what *stream* (of one of them) has, and wait; by which way."""
    cuda = backend.load()
    if cuda.can_access_peer(dst_context.device, src_context.device):
        # Without it the driver stages the copy through memory of its own.
        with backend.current(cuda, dst_context):
            cuda.enable_peer(src_context)
        with backend.current(cuda, src_context):
            cuda.enable_peer(dst_context)
        cuda.copy_peer(dst, dst_context, src, src_context, size, stream)
        streams.synchronize(stream)
        return "peer"
    streams.synchronize(stream)
    with ExitStack() as undo:
        _through_host(dst, dst_context, src, src_context, size, undo)
    return "host slot"


def _through_host(
    dst: int, dst_context: Context, src: int, src_context: Context, size: int, undo: ExitStack
) -> None:
    """Two slots: while one is filled from the one device, the other is emptied to the second."""
    cuda = backend.load()
    with backend.current(cuda, src_context):
        pool = undo.enter_context(HostPool(device=src_context.device))
        slots = [undo.enter_context(pool.acquire(min(_CHUNK, size))) for _ in range(2)]
        out_of = cuda.stream_create()
    undo.callback(_destroy, out_of, src_context)
    with backend.current(cuda, dst_context):
        into = cuda.stream_create()
    undo.callback(_destroy, into, dst_context)
    for turn, begin in enumerate(range(0, size, _CHUNK)):
        length = min(_CHUNK, size - begin)
        region = slots[turn % 2].region
        assert region is not None
        if turn % 2 == 0:
            streams.synchronize(into)  # both slots are empty again
        with backend.current(cuda, src_context):
            cuda.copy(region.address, src + begin, length, out_of)
            streams.synchronize(out_of)
        with backend.current(cuda, dst_context):
            cuda.copy(dst + begin, region.address, length, into)
    streams.synchronize(into)


def _destroy(stream: int, context: Context) -> None:
    cuda = backend.load()
    with backend.current(cuda, context):
        streams.synchronize(stream)
        cuda.stream_destroy(stream)
