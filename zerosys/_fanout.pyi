from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Literal, Self, SupportsFloat, SupportsIndex, final

from _typeshed import FileDescriptorLike, ReadableBuffer

@final
class FanOut:
    def __new__(
        cls,
        src: FileDescriptorLike | ReadableBuffer,
        sinks: Iterable[FileDescriptorLike],
        count: SupportsIndex | None = None,
        *,
        offset_src: SupportsIndex | None = None,
        unit: SupportsIndex = 1,
        drop: bool = False,
        pipe_size: SupportsIndex = ...,
        touch_flags: bool = True,
        strict: bool = False,
    ) -> Self: ...
    def run(
        self,
        timeout: SupportsFloat | None = None,
        *,
        stall_timeout: SupportsFloat | None = None,
        watch: Callable[[FanOut], object] | None = None,
    ) -> int: ...
    def prepend(self, data: bytes) -> None: ...
    def branch(self, number: SupportsIndex) -> tuple[int, int, int, int, int]: ...
    def take_stranded(self, number: SupportsIndex) -> bytes: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, stopped: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def taken(self) -> int: ...
    @property
    def ended(self) -> bool: ...
    @property
    def reason(self) -> Literal["late", "failed", "copy"] | None: ...
    @property
    def side(self) -> Literal["source", "sink"] | None: ...
    @property
    def pipe_size(self) -> int: ...
