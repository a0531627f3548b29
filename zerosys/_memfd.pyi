from typing import Final, Protocol, SupportsIndex

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

MFD_CLOEXEC: Final[int]
MFD_ALLOW_SEALING: Final[int]
MFD_HUGETLB: Final[int]
MFD_NOEXEC_SEAL: Final[int]
MFD_EXEC: Final[int]
MFD_HUGE_SHIFT: Final[int]
F_SEAL_SEAL: Final[int]
F_SEAL_SHRINK: Final[int]
F_SEAL_GROW: Final[int]
F_SEAL_WRITE: Final[int]
F_SEAL_FUTURE_WRITE: Final[int]
F_SEAL_EXEC: Final[int]
NAME_LIMIT: Final[int]

def memfd_create(name: str = "", flags: SupportsIndex = 3, *, huge_page: SupportsIndex = 0) -> int: ...
def add_seals(fd: int | _HasFileno, seals: SupportsIndex) -> None: ...
def get_seals(fd: int | _HasFileno) -> int: ...
