"""The home node of a range of memory: the one of its policy's nodes that is tried first."""

from __future__ import annotations

import errno

from zerosys import _numa
from zerosys.errors import PlacementError, Unsupported
from zerosys.extent import Memory, pages_of
from zerosys.policy import policy_of, why_not
from zerosys.refusal import filtered, placement_error
from zerosys.selection import one_node

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from zerosys.nodes import Spec


def set_home_node(memory: Memory, node: Spec) -> None:
    """Have pages of *memory*, which has a Bind or PreferredMany policy, try *node* first.

    It governs pages that are touched from now on; the policy's other nodes follow by their
    distance from *node*. The kernel tells nobody the home node afterwards. Raises Unsupported
    before Linux 5.17, PlacementError for memory with another policy or none, or a node on
    which memory cannot be had. See set_mempolicy_home_node(2).
    """
    home = one_node(node)
    with pages_of(memory) as extent:
        wrong = why_not(frozenset([home]))
        if wrong:
            raise PlacementError(errno.ENODEV, f"set_mempolicy_home_node: {wrong}")
        try:
            _numa.set_mempolicy_home_node(extent.address, extent.length, home)
        except OSError as refusal:
            raise _explained(refusal, memory) from refusal


def _explained(refusal: OSError, memory: Memory) -> OSError:
    call = "set_mempolicy_home_node"
    if refusal.errno in (errno.EOPNOTSUPP, errno.ENOENT):
        policy = policy_of(memory)
        return PlacementError(
            refusal.errno,
            f"{call}: the memory has {policy!r}, and a home node belongs to Bind or PreferredMany: apply "
            "one of these first",
        )
    if refusal.errno == errno.ENOSYS and not filtered():
        return Unsupported(errno.ENOSYS, f"{call}: needs Linux 5.17: use Preferred(node), or Bind(node)")
    return placement_error(refusal, call)
