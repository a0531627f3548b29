"""What the doctor says of one thing: its state, the evidence, and what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal["ok", "absent", "limited", "broken"]

#: From the best to the worst; the exit status of the command goes with the worst.
STATES: tuple[State, ...] = ("ok", "absent", "limited", "broken")


class Finding(NamedTuple):
    """One thing that was looked at.

    ``state`` is "ok"; "absent": not on this machine, and nothing else suffers from it;
    "limited": it works, with less than zerosys could do; "broken": a part of zerosys does not work.
    ``evidence`` is what was seen, in numbers where there are some; ``remedy`` is what to do, a command
    to copy where there is one, and None where nothing need be done.
    """

    what: str
    state: State
    evidence: str
    remedy: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """The finding for JSON."""
        return self._asdict()


def exit_status(findings: list[Finding]) -> int:
    """0: all works; 1: something is limited; 2: something is broken."""
    worst = max((STATES.index(finding.state) for finding in findings), default=0)
    return max(worst - 1, 0)
