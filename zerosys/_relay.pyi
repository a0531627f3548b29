from collections.abc import Callable
from typing import Self, SupportsFloat, final

from zerosys._transfer import Transfer

@final
class Relay:
    def __new__(cls, forth: Transfer, back: Transfer) -> Self: ...
    @property
    def forth(self) -> Transfer: ...
    @property
    def back(self) -> Transfer: ...
    @property
    def failed(self) -> Transfer | None: ...
    def run(
        self,
        timeout: SupportsFloat | None = None,
        *,
        stall_timeout: SupportsFloat | None = None,
        watch: Callable[[Relay], object] | None = None,
    ) -> None: ...
