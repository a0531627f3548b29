"""What was asked on the way to an answer, and what each said."""

from __future__ import annotations


class Trail:
    """The sources in the order of asking, each with its answer; the same answer once."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def note(self, source: str, answer: str) -> None:
        if (source, answer) not in self.steps:
            self.steps.append((source, answer))

    def __str__(self) -> str:
        return told(self.steps)


def told(steps: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    """The steps in a line, for an error."""
    return "; ".join(f"{source}: {answer}" for source, answer in steps)
