"""What zerosys raises and warns of, beside the OSError that a kernel's refusal becomes."""

from __future__ import annotations

from collections.abc import Mapping


class Unsupported(OSError):
    """This kernel or machine lacks what was asked; the text says what would have it."""


class PlacementError(OSError):
    """Memory or a thread cannot be, or is not, on the nodes that were asked for.

    ``pages`` counts pages by their last status where pages were counted: a node, or
    the negative errno that the kernel gave.
    """

    pages: Mapping[int, int]

    def __init__(self, *args: object, pages: Mapping[int, int] | None = None) -> None:
        super().__init__(*args)
        self.pages = dict(pages or {})

    def __reduce__(self) -> tuple[object, ...]:
        # OSError rebuilds itself from its arguments; the counts ride along as state.
        return type(self), self.args, {"pages": self.pages}


class MoveTimeout(PlacementError, TimeoutError):
    """The time to move pages was up: those below ``offset`` bytes are done, and stay where they are.

    ``pages`` counts these by their node. ``move_to(..., offset=error.offset)`` goes on.
    """

    offset: int

    def __init__(self, *args: object, pages: Mapping[int, int] | None = None, offset: int = 0) -> None:
        super().__init__(*args, pages=pages)
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {"pages": self.pages, "offset": self.offset}


class NotReady(TimeoutError):
    """What was asked for exists, and was not complete until the deadline."""


class PlacementWarning(UserWarning):
    """Placement was asked for without ``strict``, and is not what was asked."""
