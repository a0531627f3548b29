"""Sets of nodes as the tools of numactl take them: also none at all."""

from __future__ import annotations

from zerosys.errors import PlacementError
from zerosys.machine import topology
from zerosys.nodes import parse
from zerosys.policy import why_not
from zerosys.selection import node_set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set


def numactl_set(text: str) -> Set[int]:
    """The nodes that *text* means; unlike node_set(), nothing and all but all are sets, too.

    As numactl has it, a node on which this process can have no memory is none: a range skips it,
    and may not end with it. Raises ValueError and PlacementError, which say what is wrong.
    """
    words = text.strip()
    if not words:
        return frozenset()
    machine = topology()
    usable = machine.allowed_nodes
    try:
        nodes = parse(words.removeprefix("!"), usable, everything=machine.all_nodes & usable)
    except PlacementError:
        barred = node_set(words.removeprefix("!")) - usable
        if not barred:
            raise
        raise ValueError(why_not(barred)) from None
    return (usable & machine.all_nodes) - nodes if words.startswith("!") else nodes
