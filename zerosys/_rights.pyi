from collections.abc import Sequence
from typing import Protocol, SupportsIndex

from typing_extensions import Buffer

from zerosys._descriptor import Descriptor

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

def send_fds(sock: int | _HasFileno, data: Buffer, fds: Sequence[int | _HasFileno] = ()) -> int: ...
def receive_fds(sock: int | _HasFileno, count: SupportsIndex) -> tuple[bytes, list[Descriptor], int]: ...
