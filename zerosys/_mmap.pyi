from collections.abc import Iterable
from types import TracebackType
from typing import Final, Protocol, Self, SupportsIndex, final

from typing_extensions import disjoint_base

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

PROT_NONE: Final[int]
PROT_READ: Final[int]
PROT_WRITE: Final[int]
PROT_EXEC: Final[int]
MAP_SHARED: Final[int]
MAP_PRIVATE: Final[int]
MAP_SHARED_VALIDATE: Final[int]
MAP_FIXED: Final[int]
MAP_FIXED_NOREPLACE: Final[int]
MAP_ANONYMOUS: Final[int]
MAP_GROWSDOWN: Final[int]
MAP_LOCKED: Final[int]
MAP_NORESERVE: Final[int]
MAP_POPULATE: Final[int]
MAP_NONBLOCK: Final[int]
MAP_STACK: Final[int]
MAP_HUGETLB: Final[int]
MAP_SYNC: Final[int]
MAP_HUGE_SHIFT: Final[int]
MAP_HUGE_MASK: Final[int]
MS_ASYNC: Final[int]
MS_INVALIDATE: Final[int]
MS_SYNC: Final[int]
MLOCK_ONFAULT: Final[int]
MADV_NORMAL: Final[int]
MADV_RANDOM: Final[int]
MADV_SEQUENTIAL: Final[int]
MADV_WILLNEED: Final[int]
MADV_DONTNEED: Final[int]
MADV_FREE: Final[int]
MADV_REMOVE: Final[int]
MADV_DONTFORK: Final[int]
MADV_DOFORK: Final[int]
MADV_MERGEABLE: Final[int]
MADV_UNMERGEABLE: Final[int]
MADV_HUGEPAGE: Final[int]
MADV_NOHUGEPAGE: Final[int]
MADV_DONTDUMP: Final[int]
MADV_DODUMP: Final[int]
MADV_WIPEONFORK: Final[int]
MADV_KEEPONFORK: Final[int]
MADV_COLD: Final[int]
MADV_PAGEOUT: Final[int]
MADV_POPULATE_READ: Final[int]
MADV_POPULATE_WRITE: Final[int]
MADV_DONTNEED_LOCKED: Final[int]
MADV_COLLAPSE: Final[int]
MADV_HWPOISON: Final[int]
MADV_SOFT_OFFLINE: Final[int]
MADV_GUARD_INSTALL: Final[int]
MADV_GUARD_REMOVE: Final[int]

def page_size_of(fd: int | _HasFileno) -> int: ...

@disjoint_base
class Mapping:
    def __new__(
        cls,
        fd: int | _HasFileno | None,
        size: SupportsIndex,
        *,
        offset: SupportsIndex = 0,
        flags: SupportsIndex = ...,
        protection: SupportsIndex = ...,
        mirror: bool = False,
        align: SupportsIndex = 0,
    ) -> Self: ...
    @property
    def size(self) -> int: ...
    @property
    def mapped_size(self) -> int: ...
    @property
    def page_size(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def protection(self) -> int: ...
    @property
    def flags(self) -> int: ...
    @property
    def mirror(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def file_id(self) -> tuple[int, int]: ...
    @property
    def views(self) -> int: ...
    def close(self) -> None: ...
    def advise(
        self, advice: SupportsIndex, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None
    ) -> None: ...
    def lock(self, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None: ...
    def lock_on_fault(self, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None: ...
    def unlock(self, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None: ...
    def sync(
        self, flags: SupportsIndex = ..., *, offset: SupportsIndex = 0, length: SupportsIndex | None = None
    ) -> None: ...
    def resident(self, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> int: ...
    def protect(self, protection: SupportsIndex) -> None: ...
    def populate(
        self,
        *,
        write: bool = True,
        threads: SupportsIndex = 1,
        cpus: Iterable[SupportsIndex] | None = None,
        offset: SupportsIndex = 0,
        length: SupportsIndex | None = None,
    ) -> int: ...
    def resize(self, size: SupportsIndex, fd: int | _HasFileno | None = None) -> None: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class Lease:
    @property
    def mapping(self) -> Mapping: ...
    def check_gift(self, address: SupportsIndex, length: SupportsIndex) -> None: ...
    def gifted(self, address: SupportsIndex, length: SupportsIndex) -> None: ...
