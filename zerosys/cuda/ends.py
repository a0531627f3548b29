"""Both ends of a pipeline: where windows come from and go to, told by what they can do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

from zerosys._numa import extent_of
from zerosys.cuda.memory import leased

# How many items a sink's window gets: a number, what a function makes of the input's, None: as many.
Items: TypeAlias = Callable[[int], int] | int | None


class DeviceSpan(NamedTuple):
    """Device memory for one window: ``pointer``, its shape, and numpy's text for the type of an item.

    CuPy, numba and torch take it by ``__cuda_array_interface__``. It is the next window's later on.
    """

    pointer: int
    shape: tuple[int, ...]
    typestr: str

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * int(self.typestr[2:])

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }


class Lent:
    """A window of a source or sink: where its memory is, and how it is given back, once."""

    __slots__ = ("_window", "address", "nbytes", "shape", "typestr")

    def __init__(self, window: Any) -> None:
        import numpy

        self._window = window
        view = leased(window)
        try:
            self.address, self.nbytes = extent_of(view)
            array = numpy.asarray(view)
            self.shape, self.typestr = array.shape, array.dtype.str
            if array.dtype.names:  # no library has records on a device
                self.shape, self.typestr = (self.nbytes,), "|u1"
            del array
        finally:
            view.release()  # the window lends the memory itself, and could not be given back under it

    def give(self, after: Any) -> None:
        """Give it back once *after* has been passed; what nobody lent stays where it is."""
        window, self._window = self._window, None
        release = getattr(window, "release", None)
        if release is not None and not isinstance(window, memoryview):
            release(after=after)

    def put_back(self) -> None:
        """Give it back as if it had not been taken, or, where there is no such thing, give it back."""
        if hasattr(self._window, "put_back"):
            self._window.put_back()
            self._window = None
        else:
            self.give(None)

    def commit(self) -> None:
        """It is filled."""
        window, self._window = self._window, None
        if hasattr(window, "commit"):
            window.commit()

    def abort(self) -> None:
        """It is not, and goes back as it is."""
        window, self._window = self._window, None
        if hasattr(window, "abort"):
            window.abort()


class Source:
    """Windows of *items* that a reader has, or the buffers of an iterable, one after the other."""

    def __init__(self, source: Any, items: int | None, timeout: float | None) -> None:
        self._reader = source if hasattr(source, "peek") else None
        self._items, self._timeout = items, timeout
        if self._reader is not None and items is None:
            raise ValueError("a source with peek() needs items=, the number of items of a window")
        if self._reader is None:
            self._buffers: Iterator[Any] = iter(source)

    def take(self, before_waiting: Callable[[], None]) -> Lent | None:
        """The next window; None at the end. *before_waiting* is called where there is none yet."""
        if self._reader is None:
            buffer = next(self._buffers, None)
            return None if buffer is None else _lent(buffer)
        window = self._reader.try_peek(self._items)
        if window is None:
            before_waiting()
            window = self._reader.peek(self._items, self._timeout)
        if not window:
            window.release()
            return None
        return _lent(window)


def _lent(window: Any) -> Lent:
    """*window* as a Lent; given back if it is no memory that can be copied."""
    try:
        return Lent(window)
    except BaseException:
        if hasattr(window, "release"):
            window.release()
        raise


class Lane(Protocol):
    """What a sink needs of a lane: where it keeps the window, and room on the device for what goes there."""

    window: Lent | None
    count: int

    def make_room(self, shape: tuple[int, ...], typestr: str) -> None: ...


class Sink:
    """Windows that a writer claims, or the buffers of an iterable, each to be filled."""

    def __init__(self, sink: Any, items: Items, timeout: float | None) -> None:
        self._writer = sink if hasattr(sink, "claim") else None
        self._items, self._timeout = items, timeout
        # A writer lends one window at a time, and the next one only after that was committed.
        self.several = self._writer is None
        if self._writer is None:
            self._buffers: Iterator[Any] = iter(sink)

    def room_for(self, lane: Lane, shape: tuple[int, ...]) -> None:
        """Have *lane* make room on the device for what comes of an input of *shape*."""
        if self._writer is None:
            window = next(self._buffers, None)
            if window is None:
                raise ValueError("the sink has no buffer left for the source's next window")
            lane.window = told = Lent(window)
            lane.make_room(told.shape, told.typestr)
            return
        count = self._count(shape[0] if shape else 1)
        typestr, shape = self._item_of()
        lane.count = count
        lane.make_room((count, *shape), typestr)

    def _count(self, items: int) -> int:
        if self._items is None:
            return items
        return self._items(items) if callable(self._items) else self._items

    def _item_of(self) -> tuple[str, tuple[int, ...]]:
        """Type and shape of the writer's items, as its ring says; bytes where it has no ring."""
        ring = getattr(self._writer, "ring", None)
        if ring is None:
            return "|u1", ()
        if ring.dtype.base.names:  # no library has records on a device
            return "|u1", (ring.item_size,)
        return ring.dtype.base.str, ring.item_shape

    def take(self, lane: Lane) -> Lent:
        """The window that *lane*'s output goes to."""
        if lane.window is not None:
            return lane.window
        assert self._writer is not None
        return Lent(self._writer.claim(lane.count, self._timeout))
