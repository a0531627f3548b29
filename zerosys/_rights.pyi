from typing import Protocol, SupportsIndex

from typing_extensions import Buffer

from zerosys._descriptor import Descriptor

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

def send_fd(sock: int | _HasFileno, data: Buffer, fd: int | _HasFileno | None = None) -> int: ...
def receive_fds(sock: int | _HasFileno, count: SupportsIndex) -> tuple[bytes, list[Descriptor], int]: ...
