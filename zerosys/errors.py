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


class PumpError(OSError):
    """A pump could not go on: which end failed, what had arrived by then, and what is still held.

    ``side`` is "source", "sink" or None; ``moved`` counts the bytes that the sink has
    accepted, by any path; ``stranded`` those that were taken from the source and that the
    sink has not, which are ``stranded_bytes``.
    """

    side: str | None
    moved: int
    stranded: int
    stranded_bytes: bytes

    def __init__(
        self, *args: object, side: str | None = None, moved: int = 0, stranded_bytes: bytes = b""
    ) -> None:
        super().__init__(*args)
        self.side, self.moved, self.stranded_bytes = side, moved, stranded_bytes
        self.stranded = len(stranded_bytes)

    def __reduce__(self) -> tuple[object, ...]:
        # OSError rebuilds itself from its arguments; the progress rides along as state.
        return type(self), self.args, self.__dict__


class PumpTimeout(PumpError, TimeoutError):
    """The time was over, or nothing had moved for too long, before the pump was done."""


class ShortSource(PumpError, EOFError):
    """The source ended before it had given as many bytes as were asked for."""


class WouldCopy(PumpError, Unsupported):
    """A strict pump came to where it would have to copy; nothing was copied."""


class CudaError(RuntimeError):
    """A CUDA call was refused: ``code`` is the driver's number, ``call`` the call's name."""

    def __init__(self, code: int, call: str, text: str) -> None:
        super().__init__(f"{call}: {text}")
        self.code, self.call, self.text = code, call, text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.call, self.text)


class NotRegisterable(CudaError):
    """This memory, or any on this device, cannot be registered. It stays usable, and DeviceView stages it."""
