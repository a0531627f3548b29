from typing import Any, Final, SupportsIndex

CPU: Final[int]
CUDA_HOST: Final[int]

def capsule(
    owner: object,
    device: tuple[int, int],
    offset: SupportsIndex,
    length: SupportsIndex,
    *,
    read_only: bool,
    max_version: tuple[int, int] | None = None,
) -> Any: ...
