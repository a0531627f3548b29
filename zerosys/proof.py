"""A policy held against the pages: the proof that memory lies where it was asked to lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zerosys.errors import PlacementError
from zerosys.machine import topology

if TYPE_CHECKING:
    from zerosys.policy import Policy
    from zerosys.whereabouts import Placement


@dataclass(frozen=True)
class Verification:
    """The outcome of verify(): a snapshot.

    ``ok``: every page exists, its node is known, and is one that ``policy`` names; without
    a policy there is nothing to prove, and it is False. ``misplaced`` pages lie on other
    nodes: for a policy that only prefers, its spill, which ``spill`` counts by node.
    ``placement`` is None where the kernel refused to tell (``refusal``). ``reason`` says in
    words why not.
    """

    ok: bool
    policy: Policy | None
    placement: Placement | None
    misplaced: int
    reason: str
    refusal: PlacementError | None = None

    @property
    def spill(self) -> dict[int, int]:
        """The pages on nodes that the policy does not name, by node."""
        found = self.placement.nodes if self.placement and self.policy and self.policy.nodes else {}
        return {node: pages for node, pages in found.items() if self.policy and node not in self.policy.nodes}

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "every page lies where its policy says" if self.ok else self.reason


def verify(policy: Policy | None, look: Callable[[], Placement]) -> Verification:
    """Hold what *look* finds against *policy*."""
    try:
        found = look()
    except PlacementError as refusal:
        return Verification(False, policy, None, 0, f"pages cannot be looked up: {refusal.strerror}", refusal)
    if policy is None or not policy.nodes:
        what = "no policy is in effect" if policy is None else f"{policy!r} names no nodes"
        return Verification(False, policy, found, 0, f"{what}, so nothing can be proved")
    strays = {node: pages for node, pages in found.nodes.items() if node not in policy.nodes}
    reasons = [f"{pages} pages lie on node {node}" for node, pages in sorted(strays.items())]
    reasons += [
        f"{pages} pages {state}"
        for pages, state in (
            (found.absent, "do not exist"),
            (found.unmapped, "are not mapped here, so their node cannot be asked for"),
            (found.unknown, "would not tell their node"),
        )
        if pages
    ]
    if strays and topology().balancing:
        reasons.append("and NUMA balancing is on, which moves pages by itself")
    text = f"{policy!r}: {', '.join(reasons)}" if reasons else ""
    return Verification(not reasons, policy, found, sum(strays.values()), text)
