"""What a ring of items and one of messages have in common: made, joined, counted, given back."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, suppress
from multiprocessing import reduction
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from zerosys import _ring, names
from zerosys._descriptor import Descriptor, duplicate, own
from zerosys._mmap import Mapping
from zerosys.backing import Backing
from zerosys.errors import NotReady
from zerosys.handle import Particulars, RegionHandle, RingHandle, refuse_pickle
from zerosys.ring import files
from zerosys.ring.files import Data, DataWish
from zerosys.sizes import parse_size, show_size

if TYPE_CHECKING:
    from zerosys.whereabouts import Placement


class Ring(_ring.RingMemory):
    """Owns the two files of a ring and their mappings; made by create() or attach().

    It is a read-only buffer of its data, twice in a row (writable where this process has the
    writer), a context manager, and travels as an argument of a multiprocessing Process,
    through its Queue, Pipe and Pool.
    """

    _kind: ClassVar[str]
    _control: Mapping
    _control_fd: Descriptor
    _data: Data
    _path: str | None = None

    def __new__(cls, *_: object, **__: object) -> Self:
        raise TypeError(f"make a {cls.__name__} with {cls.__name__}.create() or {cls.__name__}.attach()")

    @classmethod
    def _make(cls, name: str | None, wish: DataWish, size: int, slots: int, **words: Any) -> Self:
        """Make both files, fill in the header, and publish the name last; or leave nothing behind."""
        path = f"{names.SHM}/{name}" if name else None
        if path and os.path.lexists(path):
            raise FileExistsError(
                errno.EEXIST,
                "the name is taken: attach to it, remove it (zerosys ring rm), or take another",
                path,
            )
        if name:
            files.clear_orphan(name)
        with ExitStack() as undo:
            data = Data.create(size, name + files.DATA if name else None, wish)
            undo.callback(data.fd.close)
            if data.path:
                undo.callback(_remove, data.path, data.file_id)
            fd, control = files.create_control(_ring.control_bytes(slots), wish.mode, path)
            undo.callback(fd.close)
            undo.callback(control.close)
            _ring.format_control(
                control, kind=cls._number, slots=slots, size=size, data_id=data.file_id, **words
            )
            self = cls._over(control, fd, data)
            undo.callback(self.drop_control)
            if path:
                files.publish(fd, path, keep=wish.keep)
                self._path = path
            undo.pop_all()
            return self

    _number: ClassVar[int]
    _kinds: ClassVar[dict[str, type[Ring]]] = {}

    def __init_subclass__(cls, **words: object) -> None:
        super().__init_subclass__(**words)
        Ring._kinds.setdefault(cls._kind, cls)
        reduction.register(cls, _reduce)

    @classmethod
    def _over(cls, control: Mapping, fd: Descriptor, data: Data) -> Self:
        """The ring of two files, once all that its header says was checked."""
        try:
            memory = _ring.RingMemory(control, data.size)
        except BlockingIOError as unfinished:
            raise NotReady(unfinished.strerror) from None
        memory.drop_control()  # asked only for its kind
        kind = cls if cls is not Ring else Ring._kinds[memory.kind]
        if memory.kind != kind._kind:
            raise _ring.RingCorrupt(f"this is a ring of {memory.kind}, not a {cls.__name__}")
        self: Any = _ring.RingMemory.__new__(kind)
        _ring.RingMemory.__init__(self, control, data.size)
        if self.data_id != data.file_id or self.kind != memory.kind:
            self.drop_control()
            raise _ring.RingCorrupt("the control block is another ring's: its data is another file")
        data.size = self.data_size
        self._control, self._control_fd, self._data = control, fd, data
        made: Self = self
        return made

    @classmethod
    def attach(cls, source: str | RegionHandle, *, timeout: float = 0.0, unsealed: bool = False) -> Self:
        """Join the ring of a name, or that of a handle, which stays the caller's.

        *timeout* seconds are waited for a name that is not there. Every number in the
        memory is checked before it is used. What a handle brings and whose size a peer could
        change is refused unless *unsealed*: touching what was truncated is SIGBUS. Raises
        FileNotFoundError or NotReady for a name, RingCorrupt for what is no ring of this kind
        (Ring.attach() takes either), and leaves it as it is.
        """
        if isinstance(source, str):
            control, data, path = files.join(source, timeout)
            return cls._join(control, data, path, trusted=True)
        if not isinstance(source, RingHandle):
            raise TypeError(f"attach() takes a name or what ring.handle() made, not {source!r}")
        control, data = (duplicate(fd) for fd in source.filenos())
        return cls._join(control, data, None, trusted=unsealed)

    @classmethod
    def _join(cls, control_fd: Descriptor, data_fd: Descriptor, path: str | None, *, trusted: bool) -> Self:
        """The ring behind two descriptors, which are its own from now on."""
        with ExitStack() as undo:
            undo.callback(control_fd.close)
            undo.callback(data_fd.close)
            control = files.map_control(control_fd, trusted=trusted)
            undo.callback(control.close)
            data = Data.found(data_fd, path and files.data_path(path), trusted=trusted)
            self = cls._over(control, control_fd, data)
            self._path = path
            undo.pop_all()
            return self

    # -- what it is --------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name that it was created with or attached by; None for a nameless ring."""
        return os.path.basename(self._path) if self._path else None

    @property
    def closed(self) -> bool:
        """Whether it takes no new ends and views."""
        return self._control.closed

    @property
    def backing(self) -> Backing:
        """What the data is made of: source, pages got, whether sealed."""
        return self._data.backing

    def placement(self) -> Placement:
        """The data's pages by node, asked for one by one and never touched. See move_pages(2)."""
        from zerosys.whereabouts import placement

        self._open()
        return placement(self._data.shown, fd=self._data.fd.fileno())

    @property
    def address(self) -> int:
        """Where the data lies in this process, twice in a row."""
        self._open()
        return self._data.shown.address

    @property
    def mapped_size(self) -> int:
        """The bytes that are mapped: the data twice."""
        return 2 * self.data_size

    @property
    def mirror(self) -> bool:
        """True: the second half shows the pages of the first again."""
        return True

    @property
    def page_size(self) -> int:
        """The bytes of a page of the data."""
        return self._data.backing.page_size

    def _lent(self) -> Mapping:
        self._open()
        return self._data.shown

    def stat(self) -> dict[str, Any]:
        """The counters as they are now: items, bytes, lost, blocked seconds, high-water mark; each reader's.

        Any process that attached may ask, whatever the two ends do meanwhile.
        """
        self._open()
        return self.counters(self._control_fd)

    def handle(self) -> RingHandle:
        """What another process needs to attach: new descriptors, which the handle owns."""
        self._open()
        size, page = self._control.size, self._control.page_size
        told = Particulars(size, page, "base", self.backing.source, None, files=2)
        return RingHandle(duplicate(self._control_fd), duplicate(self._data.fd), told)

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self)

    def __repr__(self) -> str:
        what = f"{type(self).__name__} of {show_size(self.capacity)}"
        return f"<{what}, closed>" if self.closed else f"<{what}, {self.format}, {self.slots} slots>"

    # -- given back ----------------------------------------------------------------------------

    def _open(self) -> None:
        if self.closed:
            raise ValueError(f"this {type(self).__name__} is closed")

    def close(self) -> None:
        """Give memory and descriptors back; others who attached keep theirs. Twice is fine.

        Raises BufferError while a writer, a reader or a view of this process is alive, and
        changes nothing then.
        """
        if self._control_fd.closed:
            return
        views = sum(mapping.views for mapping in self._data.mappings())
        if views:
            raise BufferError(
                f"cannot close under {views} live view(s), among them writers and readers: close these first"
            )
        self.drop_control()
        for mapping in (*self._data.mappings(), self._control):
            mapping.close()
        self._close_fds()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, or take no new views and leave it to the last to free the memory."""
        if self._control_fd.closed:
            return
        self.leave_control()
        for mapping in (*self._data.mappings(), self._control):
            mapping.__exit__(kind, error, trace)
        self._close_fds()

    def _close_fds(self) -> None:
        self._control_fd.close()
        self._data.fd.close()

    def unlink(self) -> None:
        """Remove the name, for everybody, if it still means this ring; quiet if it has gone.

        Whoever has the ring attached keeps it. Raises ValueError for a nameless ring.
        """
        if self._path is None:
            raise ValueError(f"this {type(self).__name__} has no name to remove")
        _remove(self._path, self._control.file_id)
        if self._data.path:
            _remove(self._data.path, self.data_id)


def _reduce(ring: Ring) -> tuple[Any, ...]:
    """What multiprocessing's own pickler writes: the descriptors themselves, which stay open until
    a spawned child has inherited them."""
    ring._open()
    carried = [reduction.DupFd(fd.fileno()) for fd in (ring._control_fd, ring._data.fd)]
    return _rebuild, (type(ring), *carried, ring._path, ring.backing.sealed)


def _rebuild(cls: type[Ring], control: Any, data: Any, path: str | None, sealed: bool) -> Ring:
    return cls._join(own(control.detach), own(data.detach), path, trusted=not sealed)


def _remove(path: str, file_id: tuple[int, int]) -> None:
    if names.means(path, *file_id):
        with suppress(FileNotFoundError):
            os.unlink(path)


def read_capacity(capacity: Any, fill_limit: Any, item_size: int) -> tuple[int, int]:
    """The bytes of *capacity*, and of the fill limit, which is no more."""
    asked = parse_size(capacity)
    most = asked if fill_limit is None else parse_size(fill_limit)
    if not item_size <= asked <= 1 << 60:
        raise ValueError(f"capacity must be {item_size} bytes (one item) to {1 << 60}, not {asked}")
    if not item_size <= most <= asked:
        raise ValueError(
            f"fill_limit must be {item_size} bytes (one item) to the capacity of {asked}, not {most}"
        )
    return asked, most


def power_of_two(size: int) -> int:
    """The least power of two that is not less than *size*."""
    return 1 << (size - 1).bit_length()
