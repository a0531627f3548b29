"""A mapping that owns its descriptor, and the name it may have: what it refuses, how it is given back."""

from __future__ import annotations

import os
from contextlib import suppress
from types import TracebackType
from typing import NoReturn, Protocol, SupportsIndex

from zerosys import locking, names
from zerosys._descriptor import Descriptor
from zerosys._mmap import MADV_DONTFORK, MADV_GUARD_INSTALL, MADV_HWPOISON, MADV_REMOVE, PROT_WRITE, Mapping

_FATAL = {
    int(MADV_DONTFORK): "a forked child that touches the memory would die of SIGSEGV",
    int(MADV_HWPOISON): "touching a poisoned page is SIGBUS",
    int(MADV_GUARD_INSTALL): "touching a guarded page is SIGSEGV",
    int(MADV_REMOVE): "pages that are given up may not be had again at the next touch",
}


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class OwnedMapping(Mapping):
    """Owns a mapping of shared memory, its descriptor, and perhaps a name."""

    _fd: Descriptor | None = None
    _path: str | None = None
    _locked: bool = False
    _lock_refusal: OSError | None = None

    def fileno(self) -> int:
        """The descriptor of the memory, still the region's. Raises ValueError once closed."""
        if self._fd is None or self._fd.closed:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._fd.fileno()

    @property
    def name(self) -> str | None:
        """The name that it was created with or attached by; None for nameless memory."""
        return os.path.basename(self._path) if self._path else None

    @property
    def read_only(self) -> bool:
        """Whether this mapping can only be read."""
        return not self.protection & PROT_WRITE

    @property
    def locked(self) -> bool:
        """Whether create() or lock() locked all of it. Says nothing of a device."""
        return self._locked

    @property
    def lock_refusal(self) -> OSError | None:
        """Why ``lock="try"`` went on without, or None."""
        return self._lock_refusal

    def advise(
        self, advice: SupportsIndex, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None
    ) -> None:
        """As Mapping.advise(), but for advice that would make touching the memory fatal: ValueError."""
        number = int(advice)
        if number in _FATAL:
            raise ValueError(f"advice {number} is refused for a SharedRegion: {_FATAL[number]}")
        super().advise(number, offset=offset, length=length)

    def resize(self, size: SupportsIndex, fd: int | HasFileno | None = None) -> NoReturn:
        """Never: a region's size is sealed, which is what makes it safe to touch."""
        raise PermissionError(
            f"a SharedRegion keeps its size of {self.size} bytes, which peers rely on: create another of "
            f"{size}"
        )

    def lock(self, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None:
        """As Mapping.lock(); a refusal tells both numbers, asked and allowed."""
        try:
            super().lock(offset=offset, length=length)
        except OSError as refusal:
            raise locking.explained(refusal, self.mapped_size if length is None else int(length)) from refusal
        self._locked = self._locked or (not int(offset) and length is None)

    def unlock(self, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None:
        """As Mapping.unlock()."""
        super().unlock(offset=offset, length=length)
        self._locked = False

    def _try_lock(self, *, must: bool) -> None:
        try:
            self.lock()
        except OSError as refusal:
            if must:
                raise
            self._lock_refusal = refusal

    def unlink(self) -> None:
        """Remove the name, for everybody, if it still means this memory; quiet if it has gone.

        Whoever has the memory attached keeps it. Works after close() too. Raises
        ValueError for nameless memory.
        """
        if self._path is None:
            raise ValueError(f"this {type(self).__name__} has no name to remove")
        if names.means(self._path, *self.file_id):
            with suppress(FileNotFoundError):
                os.unlink(self._path)

    def close(self) -> None:
        """Give memory and descriptor back; others who attached keep theirs. Twice is fine.

        Raises BufferError while views are alive, and changes nothing then.
        """
        super().close()
        self._close_fd()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._close_fd()

    def _close_fd(self) -> None:
        if self._fd:
            self._fd.close()
