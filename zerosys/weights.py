"""The weights of weighted interleaving, which belong to the machine: one for each node, in sysfs."""

from __future__ import annotations

import errno
import os
from operator import index

from zerosys.errors import PlacementError, Unsupported
from zerosys.machine import node_ids
from zerosys.nodes import format
from zerosys.sysfs import number, numbered

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from typing import SupportsIndex

_FOLDER = "sys/kernel/mm/mempolicy/weighted_interleave"


def interleave_weights(root: str | os.PathLike[str] = "/") -> dict[int, int]:
    """{node: its weight}: how many pages in turn WeightedInterleave puts there.

    Raises Unsupported before Linux 6.9, and where the folder of weights is missing.
    """
    folder = f"{os.fspath(root).rstrip('/')}/{_FOLDER}"
    nodes = numbered(folder, "node")
    if not nodes:
        raise Unsupported(
            errno.ENOENT,
            f"{folder} has no weights: weighted interleaving needs Linux 6.9: use Interleave",
        )
    return {node: number(f"{folder}/node{node}") or 1 for node in nodes}


def set_interleave_weight(
    node: SupportsIndex, weight: SupportsIndex, *, root: str | os.PathLike[str] = "/"
) -> None:
    """Have every WeightedInterleave of the machine give *node* *weight* pages, 1 to 255, in turn.

    It holds for pages that are touched from now on, of all processes; 0 gives the kernel's own choice back.
    Raises ValueError for a weight that is none, PlacementError(ENODEV) for an unknown
    node, Unsupported as interleave_weights(), PermissionError for who is not root.
    """
    id, pages = index(node), index(weight)
    if not 0 <= pages <= 255:
        raise ValueError(f"weight must be 1 to 255 pages, or 0 for the kernel's choice, not {pages}")
    known = interleave_weights(root)
    if id not in node_ids(root) or id not in known:
        raise PlacementError(errno.ENODEV, f"node {id} does not exist; nodes with a weight: {format(known)}")
    path = f"{os.fspath(root).rstrip('/')}/{_FOLDER}/node{id}"
    try:
        with open(path, "w") as file:
            file.write(str(pages))
    except OSError as refusal:
        help = {
            errno.EACCES: ": only root may set the machine's weights",
            errno.EROFS: ": sysfs is mounted read-only, as in a container; set it on the host",
        }.get(refusal.errno or 0, "")
        raise OSError(refusal.errno, f"{os.strerror(refusal.errno or 0)}{help}", path) from refusal
