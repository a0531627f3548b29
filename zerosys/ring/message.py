"""MessageRing: a stream of messages of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self, SupportsIndex

from zerosys import backing, names
from zerosys.ring import stream
from zerosys.ring.base import Ring, power_of_two, read_capacity
from zerosys.ring.ends import MessageReader, MessageWriter
from zerosys.ring.files import DataWish

if TYPE_CHECKING:
    from zerosys.nodes import Spec
    from zerosys.policy import Policy

_RECORD = 16


class MessageRing(Ring):
    """A ring of messages, between one writer and its readers, in any processes.

    A message is bytes, up to the capacity; readers get each whole.
    """

    _kind: ClassVar[str] = "messages"
    _number: ClassVar[int] = 2

    @classmethod
    def create(
        cls,
        capacity: SupportsIndex | str,
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
        """Make a ring of *capacity* bytes (an int, or "64MiB") for messages of up to that size.

        Each message takes 16 bytes more, and is padded to a multiple of 16. The words are
        those of StreamRing.create().
        """
        asked, most = read_capacity(capacity, fill_limit, 1)
        wish = DataWish(node, policy, pages, populate, lock, strict, force, keep, mode)
        size = max(power_of_two(most), backing.granule(pages if pages != "auto" else "base"))
        limit = min(size, -(-most // _RECORD) * _RECORD + _RECORD)
        return cls._make(
            None if name is None else names.checked(name), wish, size, stream._readers(readers),
            on_full=on_full, on_dead=on_dead, capacity=min(asked, most), limit=limit, item_size=1,
            start=stream._start // _RECORD * _RECORD,
        )  # fmt: skip

    def writer(self, *, spin: float | None = None) -> MessageWriter:
        """Become the writer; as StreamRing.writer()."""
        self._open()
        return MessageWriter(self, self._data.mapping(writable=True), self._control_fd, spin=spin)

    def reader(
        self,
        start: Literal["next", "oldest"] | None = None,
        *,
        slot: int | None = None,
        spin: float | None = None,
    ) -> MessageReader:
        """Take a slot; as StreamRing.reader()."""
        self._open()
        return MessageReader(
            self, self._data.mapping(writable=False), self._control_fd,
            oldest=stream._oldest(self.on_full, start), slot=slot, spin=spin,
        )  # fmt: skip
