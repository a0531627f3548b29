"""The pages that hold a buffer: what policy, placement and moving work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from zerosys import _numa

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer


class Mapped(Protocol):
    """A mapping that knows its own extent, as zerosys's own do."""

    @property
    def address(self) -> int: ...
    @property
    def mapped_size(self) -> int: ...


# An array is a buffer, which numpy's stubs say from Python 3.12 on.
Memory: TypeAlias = "Mapped | Buffer | NDArray[Any]"


@dataclass(frozen=True)
class Extent:
    """Whole pages: from ``address``, ``length`` bytes, of ``page_size`` bytes each."""

    address: int
    length: int
    page_size: int
    mirror: bool = False  # the second half shows the same pages again

    @property
    def distinct(self) -> Extent:
        """Each page once: the first half of a mirror."""
        return replace(self, length=self.length // 2, mirror=False) if self.mirror else self


@contextmanager
def pages_of(memory: Memory) -> Iterator[Extent]:
    """The extent of *memory*, which stays mapped inside the block.

    An object with ``address`` and ``mapped_size`` is taken at its word, and at its
    ``page_size`` and ``mirror`` where it has them; of any other buffer these are the base pages that
    hold its bytes, so its neighbours on the first and last page belong to it too.
    Raises TypeError for what is neither, BufferError for a buffer that is not contiguous.
    """
    try:
        view = memoryview(memory)  # type: ignore[arg-type]
    except TypeError:
        if not hasattr(memory, "mapped_size"):
            raise
        view = memoryview(b"")
    with view:
        if hasattr(memory, "mapped_size"):
            mapped = cast(Mapped, memory)
            page = getattr(mapped, "page_size", PAGESIZE)
            length = -(-mapped.mapped_size // page) * page
            yield Extent(mapped.address, length, page, getattr(mapped, "mirror", False))
        else:
            address, length = _numa.extent_of(view)
            begin = address - address % PAGESIZE
            pages = -(-(address + length - begin) // PAGESIZE) if length else 0
            yield Extent(begin, pages * PAGESIZE, PAGESIZE)
