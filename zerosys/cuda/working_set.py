"""Registrations that outlive the block that asked for them, as far as a budget goes: working-set pinning.

Registering costs far more than a copy. Buffers that come round again are found registered, and those that
were not used for longest make room for others.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, SupportsIndex, TypeAlias

from zerosys.cuda.devices import Device, context_for
from zerosys.cuda.memory import HostMemory
from zerosys.cuda.registration import Registration, register
from zerosys.errors import NotRegisterable
from zerosys.sizes import parse_size, show_size

Key: TypeAlias = tuple[int, int, int]  # device, address, bytes


class _Kept:
    """A registration, and how many blocks it is in just now."""

    __slots__ = ("made", "users")

    def __init__(self, made: Registration) -> None:
        self.made, self.users = made, 0


# The least recently used first. Reentrant: the collector may end a block while this thread is in another.
_kept: OrderedDict[Key, _Kept] = OrderedDict()
_lock = threading.RLock()


def _in_child() -> None:
    """The child has the lock as it was at the fork, held perhaps by a thread that it has not."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)


@contextmanager
def pinned(
    *buffers: Any, budget: SupportsIndex | str | None = None, device: Device | None = None
) -> Iterator[tuple[Registration, ...]]:
    """Have *buffers* registered inside the block, as register() does; yields their Registrations.

    With a *budget* (bytes, or "4GiB") they stay registered afterwards, and the next block that names the
    same memory finds them so: what is kept in this way, for all devices, is brought down to *budget* before
    more is registered, the least recently used first. Without one they are unregistered at the end. A kept
    registration is a lease, under which the memory cannot be closed: release_pinned() ends those that
    no block is in. Raises ValueError where *buffers* alone are more than the budget, and as register(): then
    nothing of this block stays.
    """
    number = context_for(device).device
    most = None if budget is None else parse_size(budget)
    taken: list[tuple[Key, _Kept]] = []
    try:
        with _lock:
            _require(buffers, most)
            for buffer in buffers:
                taken.append(_take(buffer, number, most))
        yield tuple(kept.made for _, kept in taken)
    finally:
        with _lock:
            for key, kept in taken:
                kept.users -= 1
                if most is None and not kept.users and _kept.get(key) is kept:
                    _drop(key)


def _require(buffers: tuple[Any, ...], most: int | None) -> None:
    if most is None:
        return
    asked = {key[1:] for key in (_key(buffer, 0) for buffer in buffers)}
    size = sum(length for _, length in asked)
    if size > most:
        raise ValueError(
            f"{len(asked)} buffers of {show_size(size)} in all are more than the budget of {show_size(most)}"
        )


def _key(buffer: Any, device: int) -> Key:
    memory = HostMemory(buffer)
    try:
        return device, memory.address, memory.size
    finally:
        memory.release()


def _take(buffer: Any, device: int, most: int | None) -> tuple[Key, _Kept]:
    """The registration of *buffer*, used by one block more, and as the most recent one."""
    key = _key(buffer, device)
    kept = _kept.get(key)
    if kept is None:
        if most is not None:
            _make_room(most - key[2])
        kept = _kept[key] = _Kept(_registered(buffer, device))
    _kept.move_to_end(key)
    kept.users += 1
    return key, kept


def _registered(buffer: Any, device: int) -> Registration:
    """Registered; if the driver can pin no more, once more without what no block uses."""
    try:
        return register(buffer, device)
    except NotRegisterable:
        if not release_pinned():
            raise
    return register(buffer, device)


def _make_room(most: int) -> None:
    """Bring what is kept down to *most* bytes, as far as no block is in it."""
    held = sum(key[2] for key in _kept)
    for key in [key for key, kept in _kept.items() if not kept.users]:
        if held <= most:
            return
        held -= key[2]
        _drop(key)


def _drop(key: Key) -> None:
    # By __exit__, which leaves it to the last DeviceView where there is one.
    _kept.pop(key).made.__exit__(None, None, None)


def release_pinned() -> int:
    """Unregister what pinned() keeps and no block is in; the bytes."""
    with _lock:
        idle = [key for key, kept in _kept.items() if not kept.users]
        for key in idle:
            _drop(key)
        return sum(key[2] for key in idle)
