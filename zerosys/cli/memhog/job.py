"""One memhog command line, read."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set


class Job:
    """What one command line asks for."""

    def __init__(self) -> None:
        self.file: str | None = None
        self.repeat = 1
        self.huge = True
        self.size = 0
        self.policy = "default"
        self.nodes: Set[int] = frozenset()
