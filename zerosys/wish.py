"""What a region was asked to be, checked before the first system call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zerosys import backing

if TYPE_CHECKING:
    from zerosys.nodes import Spec
    from zerosys.policy import Policy


@dataclass(frozen=True)
class Wish:
    """What create() was asked for, read once."""

    size: int
    policy: Policy | None
    pages: str
    populate: bool
    fill_later: bool
    lock: bool | Literal["try"]
    strict: bool
    force: bool
    mode: int
    name: str | None
    keep: bool

    @property
    def nodes(self) -> frozenset[int] | None:
        return self.policy.nodes or None if self.policy else None

    def check(self) -> None:
        """Raise ValueError for words that mean nothing, alone or together."""
        if self.pages not in backing.PAGES:
            raise ValueError(f"pages must be one of {', '.join(backing.PAGES)}, not {self.pages!r}")
        if self.lock is not True and self.lock is not False and self.lock != "try":
            raise ValueError(f"lock must be True, False or 'try', not {self.lock!r}")
        if not self.populate and (self.pages not in ("auto", "base") or self.lock or self.name):
            raise ValueError(
                "memory that is not populated at once is for nameless base pages that are not locked: "
                "others must exist to be sure of"
            )
        if not isinstance(self.mode, int):
            raise TypeError(f"mode must be an int such as 0o600, not {self.mode!r}")
        if not 0 <= self.mode <= 0o777:
            raise ValueError(f"mode must be permissions, 0 to 0o777, not {self.mode:#o}")
        if self.mode & 0o111:
            raise ValueError(
                f"mode must be for reading and writing, not {self.mode:#o}: memory is not executed"
            )
        if self.keep and not self.name:
            raise ValueError("keep=True is for a name: nameless memory goes with the last who has it")


def wanted(node: Spec | None, policy: Policy | None, strict: bool = True) -> Policy | None:
    """The policy that *node* or *policy* asks for.

    A device that has no node, or is not there, is PlacementError; without *strict* a warning, and None.
    """
    if node is None and policy is None:
        return None
    from zerosys.errors import PlacementError
    from zerosys.policy import Bind, Policy
    from zerosys.refusal import warn

    if node is None:
        if not isinstance(policy, Policy):
            raise TypeError(f"policy is a Policy such as Bind(0), not {policy!r}: nodes are for node=")
        return policy
    if policy is not None:
        raise ValueError(f"pass node={node!r} or policy={policy!r}, not both: a policy names its nodes")
    try:
        return Bind(node)
    except PlacementError as unknown:
        if strict:
            raise
        warn(f"unplaced: {unknown.strerror}")
        return None


def confined(policy: Policy | None) -> frozenset[int] | None:
    """The nodes that memory under *policy* may not leave; None where it may lie anywhere."""
    if policy is None or type(policy).__name__.startswith("Preferred"):
        return None
    return policy.nodes or None
