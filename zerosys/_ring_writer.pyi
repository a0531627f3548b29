from types import TracebackType
from typing import Self, SupportsFloat, SupportsIndex

from _typeshed import FileDescriptorLike, WriteableBuffer
from typing_extensions import disjoint_base

from zerosys._ring import RingMemory
from zerosys._ring_end import End, Window

@disjoint_base
class Writer(End):
    def __init__(
        self,
        memory: RingMemory,
        data: WriteableBuffer,
        control_fd: FileDescriptorLike,
        *,
        spin: SupportsFloat | None = None,
    ) -> None: ...
    def evict_dead(self) -> int: ...
    @property
    def lost(self) -> int: ...
    def close(self) -> None: ...
    def leave(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

class Claim(Window):
    def commit(self, n: SupportsIndex | None = None) -> None: ...
    def abort(self) -> None: ...
    @property
    def dropped(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
