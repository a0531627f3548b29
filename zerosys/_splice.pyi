from collections.abc import Iterable
from typing import Any, Final, SupportsIndex, TypeAlias

from _typeshed import FileDescriptorLike, StrOrBytesPath
from numpy.typing import NDArray
from typing_extensions import Buffer

SPLICE_F_MOVE: Final[int]
SPLICE_F_NONBLOCK: Final[int]
SPLICE_F_MORE: Final[int]
SPLICE_F_GIFT: Final[int]
AT_FDCWD: Final[int]
AT_EMPTY_PATH: Final[int]
AT_SYMLINK_FOLLOW: Final[int]
IOV_MAX: Final[int]

# Before Python 3.12 numpy's stubs do not say that an array is a buffer.
_Lent: TypeAlias = Buffer | NDArray[Any]

def splice(
    src: FileDescriptorLike,
    dst: FileDescriptorLike,
    count: SupportsIndex,
    offset_src: SupportsIndex | None = None,
    offset_dst: SupportsIndex | None = None,
    flags: SupportsIndex = 0,
) -> int: ...
def tee(
    src: FileDescriptorLike, dst: FileDescriptorLike, count: SupportsIndex, flags: SupportsIndex = 0
) -> int: ...
def vmsplice(fd: FileDescriptorLike, buffers: _Lent | Iterable[_Lent], flags: SupportsIndex = 0) -> int: ...
def sendfile(
    dst: FileDescriptorLike, src: FileDescriptorLike, offset_src: SupportsIndex | None, count: SupportsIndex
) -> int: ...
def copy_file_range(
    src: FileDescriptorLike,
    dst: FileDescriptorLike,
    count: SupportsIndex,
    offset_src: SupportsIndex | None = None,
    offset_dst: SupportsIndex | None = None,
    flags: SupportsIndex = 0,
) -> int: ...
def linkat(
    src: StrOrBytesPath,
    dst: StrOrBytesPath,
    *,
    src_dir_fd: FileDescriptorLike = ...,
    dst_dir_fd: FileDescriptorLike = ...,
    flags: SupportsIndex = 0,
) -> None: ...
def pipe_capacity(pipe: FileDescriptorLike) -> int: ...
def set_pipe_capacity(pipe: FileDescriptorLike, size: SupportsIndex) -> int: ...
def pipe_occupancy(pipe: FileDescriptorLike) -> int: ...
