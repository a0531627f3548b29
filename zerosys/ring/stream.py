"""StreamRing: a stream of items of one dtype."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, SupportsIndex

from zerosys import backing, names
from zerosys._ring import Nothing
from zerosys.ring.base import Ring, power_of_two, read_capacity
from zerosys.ring.ends import StreamReader, StreamWriter
from zerosys.ring.files import DataWish

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from zerosys.nodes import Spec
    from zerosys.policy import Policy


class StreamRing(Ring):
    """A ring of items of one dtype, between one writer and its readers, in any processes.

    Data lies mapped twice in a row, so that every window is contiguous, on the node that was
    asked for; counters lie in a file of their own.
    """

    _kind: ClassVar[str] = "stream"
    _number: ClassVar[int] = 1

    @classmethod
    def create(
        cls,
        capacity: SupportsIndex | str,
        dtype: DTypeLike,
        *,
        readers: int = 1,
        on_full: Literal["block", "raise", "drop", "overwrite"] = "block",
        node: Spec | None = None,
        policy: Policy | None = None,
        pages: str = "auto",
        name: str | None = None,
        on_dead: Literal["raise", "evict"] = "raise",
        fill_limit: SupportsIndex | str | None = None,
        populate: bool = True,
        lock: bool | Literal["try"] = False,
        strict: bool = True,
        force: bool = False,
        keep: bool = False,
        mode: int = 0o600,
    ) -> Self:
        """Make a ring of *capacity* bytes (an int, or "64MiB") for items of *dtype*, or nothing at all.

        Up to *readers* (at most 64) read at the same time, each all items from where it began;
        slots are taken and left at run time. A writer that finds no room waits ("block"),
        raises Full ("raise"), drops what is new and counts it ("drop"), or overwrites
        what is oldest ("overwrite"). It is held up by the slowest reader, and while there is none
        by what none has read yet. A reader that died holds its place for whoever takes the
        slot next: the writer, once held up by it, raises PeerDead, or evicts it (*on_dead*).

        At most *fill_limit* bytes (None: all) lie between the writer and a reader: a small
        one keeps a ring to pages that are still warm in the caches. Memory is the power of two
        that holds it. *node*, *policy*, *pages*, *populate*, *lock*, *strict*, *force*, *keep* and
        *mode* are those of SharedRegion.create(); *name* stands in /dev/shm, its data beside it as
        name.data.

        Raises ValueError for a dtype that has pointers, no size or no buffer format, and as
        SharedRegion.create().
        """
        item_size, element, shape = described(dtype)
        asked, most = read_capacity(capacity, fill_limit, item_size)
        wish = DataWish(node, policy, pages, populate, lock, strict, force, keep, mode)
        limit = most // item_size
        size = max(power_of_two(limit * item_size), backing.granule(pages if pages != "auto" else "base"))
        return cls._make(
            None if name is None else names.checked(name), wish, size, _readers(readers),
            on_full=on_full, on_dead=on_dead, capacity=asked, limit=limit, item_size=item_size,
            element=element, shape=shape, start=_start,
        )  # fmt: skip

    def writer(self, *, spin: float | None = None) -> StreamWriter:
        """Become the writer, or raise OSError EBUSY while another is, ValueError once the stream has ended.

        It goes on where the last one stopped. A wait looks for *spin* seconds (None: 20 µs)
        before it sleeps. See fcntl(2), F_OFD_SETLK.
        """
        self._open()
        return StreamWriter(self, self._data.mapping(writable=True), self._control_fd, spin=spin)

    def reader(
        self,
        start: Literal["next", "oldest"] | None = None,
        *,
        slot: int | None = None,
        spin: float | None = None,
    ) -> StreamReader:
        """Take a slot, or raise OSError EBUSY where all are taken.

        It begins at the "oldest" item that is still there, or at the "next" to come; None is
        "oldest", but "next" in overwrite mode. A slot whose reader died is preferred, and goes
        on with what that one had not released. *slot* asks for one by number. A wait
        looks for *spin* seconds (None: 20 µs) before it sleeps.
        """
        self._open()
        return StreamReader(
            self, self._data.mapping(writable=False), self._control_fd,
            oldest=_oldest(self.on_full, start), slot=slot, spin=spin,
        )  # fmt: skip


# The first count of new rings: tests let them begin just before they wrap.
_start = 0


def _readers(readers: int) -> int:
    if not 1 <= readers <= 64:
        raise ValueError(f"readers must be 1 to 64, not {readers}")
    return int(readers)


def _oldest(on_full: str, start: str | None) -> bool:
    if start not in (None, "next", "oldest"):
        raise ValueError(f"start must be 'next' or 'oldest', not {start!r}")
    return start == "oldest" or (start is None and on_full != "overwrite")


def described(dtype: DTypeLike) -> tuple[int, str, tuple[int, ...]]:
    """The bytes of an item of *dtype*, the format of its elements, and its shape where it is an array.

    Plain bytes without a meaning (void) are items of so many unsigned bytes.
    """
    import numpy

    kind: numpy.dtype[Any] = numpy.dtype(dtype)
    base: Any = kind.base
    if kind.hasobject:
        raise ValueError(
            f"dtype {kind} holds pointers to Python objects, which mean nothing in another process"
        )
    if not kind.itemsize:
        raise ValueError(f"dtype {kind} has items of 0 bytes: give it a length")
    if base.kind == "V" and not base.names:
        return kind.itemsize, "B", (*kind.shape, base.itemsize)
    try:
        sample: Any = numpy.empty(1, base)
        element = memoryview(sample).format
    except (ValueError, BufferError) as refusal:
        raise ValueError(
            f"dtype {kind} cannot be lent as a buffer ({refusal}): use integers, and view them"
        ) from None
    # numpy leaves out that fields are not aligned, and then reads another size from its own text.
    for text in (element, element.replace("T{", "T{^")):
        with suppress(RuntimeError, ValueError):
            if numpy.asarray(Nothing(text, base.itemsize)).dtype == base:
                return kind.itemsize, text, kind.shape
    raise ValueError(f"dtype {kind} cannot be described as PEP 3118 has it: use simpler fields")
