"""Memory policies as values: made, compared, sent to another process, applied and read back."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from zerosys import _numa
from zerosys.errors import PlacementError, Unsupported
from zerosys.extent import Memory, pages_of
from zerosys.flags import PolicyFlag, PolicyMode
from zerosys.machine import topology
from zerosys.nodes import Spec, format, is_plain, parse, parse_list
from zerosys.refusal import placement_error, warn
from zerosys.selection import node_set

#: Modes by the kernel that brought them, with what to use on an older one.
_NEWER = {
    PolicyMode.PREFERRED_MANY: ("5.15", "Preferred"),
    PolicyMode.WEIGHTED_INTERLEAVE: ("6.9", "Interleave"),
}


@dataclass(frozen=True, repr=False)
class Policy:
    """How pages choose their node. Equal by kind and nodes; immutable; pickles.

    Nodes are an int, text as node_set() takes it (``"0,2-5"``, "all", "!1", "cuda:0"), an
    Affinity, or an iterable of ints. Numbers are held against the machine when the policy is
    applied, not before, so that a policy can come from another machine.
    """

    nodes: frozenset[int]
    mode: ClassVar[PolicyMode]

    def __init__(self, nodes: Spec) -> None:
        if type(self) is Policy:
            raise TypeError("a Policy is made as one of its kinds: Bind, Preferred, Interleave, ...")
        # Plain numbers need no machine, and all else is read from sysfs and procfs: in a container
        # that refuses policy calls the policy can still be made.
        here = isinstance(nodes, str) and not is_plain(nodes)
        chosen = node_set(nodes) if here else parse(nodes)
        if max(chosen) >= _numa.NODES_MAX:
            raise ValueError(f"a node is 0 to {_numa.NODES_MAX - 1}, not {max(chosen)}")
        object.__setattr__(self, "nodes", chosen)

    def __repr__(self) -> str:
        nodes = format(self.nodes)
        return f"{type(self).__name__}({nodes if nodes.isdigit() else repr(nodes) if nodes else ''})"

    def apply(self, memory: Memory, strict: bool = True) -> Policy:
        """Bind the pages that hold *memory* and return the policy that they have now.

        It governs pages that are touched from now on; those that are there stay where
        they are (see move_to). *memory* is a mapping of ours or any contiguous buffer.
        What the kernel made of the policy is read back: with *strict*, a node that it
        drops is PlacementError, which says whether the node does not exist, has no
        memory or is forbidden by the cpuset, and the memory keeps the policy it had;
        without, a PlacementWarning. Raises PlacementError where no node is left or
        the call is refused (with *strict*), Unsupported for a mode this kernel lacks.
        """
        with pages_of(memory) as extent:
            if not extent.length:
                return self
            return self._install(
                "mbind",
                lambda: _numa.mbind(extent.address, extent.length, self.mode, self.nodes),
                lambda: _numa.get_mempolicy_at(extent.address),
                strict,
            )

    def _install(
        self,
        call: str,
        install: Callable[[], None],
        read_back: Callable[[], tuple[int, frozenset[int]]],
        strict: bool,
    ) -> Policy:
        """Check, call, read back: the one way by which a policy takes effect."""
        try:
            dropped = self._unusable()
            if dropped and (strict or dropped == self.nodes):
                raise PlacementError(errno.EINVAL, f"{call}: {self!r}: {why_not(dropped)}")
            install()
            effective = from_kernel(*read_back())
        except PlacementError:
            raise
        except OSError as refusal:
            return self._refused(refusal, call, strict)
        if effective != self:
            lost = why_not(self.nodes - effective.nodes) or "something changed it meanwhile"
            text = f"{call}: {self!r} became {effective!r}: {lost}"
            if strict:
                raise PlacementError(errno.EINVAL, text)
            warn(text)
        return effective

    def _unusable(self) -> frozenset[int]:
        """The nodes on which this thread cannot have memory. Only nodes can be wrong."""
        return self.nodes - _numa.mems_allowed() if self.nodes else self.nodes

    def _refused(self, refusal: OSError, call: str, strict: bool) -> Policy:
        if refusal.errno == errno.EINVAL and self.mode in _NEWER:
            version, older = _NEWER[self.mode]
            raise Unsupported(
                errno.EINVAL, f"{call}: {self!r} needs Linux {version}: use {older}"
            ) from refusal
        if refusal.errno not in (errno.EPERM, errno.ENOSYS):
            raise refusal
        error = placement_error(refusal, call)
        if strict:
            raise error from refusal
        warn(f"unplaced: {error.strerror}")
        return Default()

    def to_dict(self) -> dict[str, str]:
        """The policy as JSON can carry it; from_dict() reads it."""
        return {"mode": self.mode.name.lower(), "nodes": format(self.nodes)}

    @staticmethod
    def from_dict(fields: Mapping[str, object]) -> Policy:
        """The policy that to_dict() wrote, checked as data from a stranger: ValueError if it is not one."""
        mode, nodes = fields.get("mode"), fields.get("nodes")
        if set(fields) != {"mode", "nodes"} or not isinstance(mode, str) or not isinstance(nodes, str):
            raise ValueError(f'a policy has the texts "mode" and "nodes", unlike {dict(fields)!r}')
        for kind in KINDS.values():
            if kind.mode.name.lower() == mode:
                return _build(kind, parse_list(nodes, _numa.NODES_MAX - 1))
        raise ValueError(f"policy mode {mode!r} is none of {', '.join(m.name.lower() for m in KINDS)}")


class Bind(Policy):
    """Pages come from *nodes* only; the process may be killed when these are full."""

    mode = PolicyMode.BIND


class PreferredMany(Policy):
    """Pages come from *nodes*, and from elsewhere when these are full. Linux 5.15."""

    mode = PolicyMode.PREFERRED_MANY


class Interleave(Policy):
    """Pages come from *nodes* in turn."""

    mode = PolicyMode.INTERLEAVE


class WeightedInterleave(Policy):
    """Pages come from *nodes* in turn, each by its weight in sysfs. Linux 6.9."""

    mode = PolicyMode.WEIGHTED_INTERLEAVE


class Preferred(Policy):
    """Pages come from one node, and from elsewhere when it is full."""

    mode = PolicyMode.PREFERRED

    def __init__(self, node: Spec) -> None:
        super().__init__(node)
        if len(self.nodes) != 1:
            raise ValueError(f"Preferred takes one node, not {format(self.nodes)}: use PreferredMany")

    @property
    def node(self) -> int:
        """The one node."""
        return min(self.nodes)


class Local(Policy):
    """Pages come from the node of the CPU that touches them first."""

    mode = PolicyMode.LOCAL

    def __init__(self) -> None:
        object.__setattr__(self, "nodes", frozenset())


class Default(Policy):
    """No policy of its own: memory follows the thread's, a thread the system's."""

    mode = PolicyMode.DEFAULT

    def __init__(self) -> None:
        object.__setattr__(self, "nodes", frozenset())


KINDS: dict[PolicyMode, type[Policy]] = {
    kind.mode: kind
    for kind in (Default, Preferred, Bind, Interleave, Local, PreferredMany, WeightedInterleave)
}


def _build(kind: type[Policy], nodes: frozenset[int]) -> Policy:
    if issubclass(kind, (Local, Default)):
        if nodes:
            raise ValueError(f"{kind.__name__} takes no nodes, not {format(nodes)}")
        return kind()
    return kind(nodes)


def from_kernel(mode: int, nodes: frozenset[int]) -> Policy:
    """The policy that get_mempolicy() told; mode flags (static nodes and such) are left out."""
    bare = PolicyMode(mode & ~sum(PolicyFlag))
    if bare is PolicyMode.PREFERRED and not nodes:
        return Local()  # how kernels before 5.14 tell it
    return _build(KINDS[bare], nodes)


def policy_of(memory: Memory) -> Policy:
    """The policy of the first page that holds *memory*, as the kernel uses it; asking touches nothing.

    Default() where the toucher's own policy holds. Raises PlacementError where the call
    is refused. See get_mempolicy(2).
    """
    with pages_of(memory) as extent:
        try:
            return from_kernel(*_numa.get_mempolicy_at(extent.address))
        except OSError as refusal:
            if refusal.errno not in (errno.EPERM, errno.ENOSYS):
                raise
            raise placement_error(refusal, "get_mempolicy") from refusal


@contextmanager
def memory_policy(policy: Policy, strict: bool = True) -> Iterator[Policy]:
    """Have the calling thread's new pages follow *policy* inside the block.

    The memory itself gets no policy of its own: placement() tells where its pages went,
    and policy_of() answers Default().

    Gives the policy in effect. On every way out the thread has the policy that it had
    before, mode flags included; blocks nest. Raises as Policy.apply(). Memory that has
    a policy of its own is not concerned, nor are other threads. See set_mempolicy(2).
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"memory_policy takes a Policy such as Bind(0), not {policy!r}")
    try:
        before = _numa.get_mempolicy()
    except OSError as refusal:
        yield policy._refused(refusal, "get_mempolicy", strict)
        return
    try:
        yield policy._install(
            "set_mempolicy",
            lambda: _numa.set_mempolicy(policy.mode, policy.nodes),
            _numa.get_mempolicy,
            strict,
        )
    finally:
        # Where a filter refused the policy there is nothing to undo, and undoing is refused as well.
        if _numa.get_mempolicy() != before:
            _numa.set_mempolicy(*before)


def why_not(nodes: frozenset[int]) -> str:
    """For each of *nodes* on which memory cannot be had, the reason, as far as it can be seen now."""
    machine = topology()
    known, filled, allowed = frozenset(machine.nodes), machine.nodes_with_memory, machine.allowed_nodes
    causes = [
        (nodes - known, f"does not exist (this machine's nodes: {format(known)})"),
        (nodes & known - filled, f"has no memory (nodes with memory: {format(filled)})"),
        (nodes & filled - allowed, f"is not allowed by the cpuset (allowed: {format(allowed)})"),
    ]
    return "; ".join(f"node {format(group)} {cause}" for group, cause in causes if group)
