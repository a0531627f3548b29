from collections.abc import Iterable
from typing import SupportsFloat, SupportsIndex

from _typeshed import FileDescriptorLike, ReadableBuffer

def lend(
    buffers: Iterable[ReadableBuffer],
    pipe: FileDescriptorLike,
    count: SupportsIndex,
    *,
    timeout: SupportsFloat | None = None,
    spin: SupportsFloat = 0.0,
) -> int: ...
