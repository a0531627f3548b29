"""``--verify``, ``--dump`` and ``--dump-nodes``: what shared memory's pages are told to do, and do."""

from __future__ import annotations

from zerosys import _numa
from zerosys.cli.numactl.telling import mask, policy_name

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from zerosys.cli.numactl.shared import Attached


def dump(memory: Attached) -> str:
    """A line for each stretch that has a policy."""
    lines = []
    for begin, end, mode, members in memory.policies():
        if mode != _numa.MPOL_DEFAULT:
            lines.append(f"{_stretch(memory, begin, end)}: {policy_name(mode)} {mask('', members)}")
    return "".join(lines)


def dump_nodes(memory: Attached) -> str:
    """A line for each stretch of pages on one node. As with numactl, pages come to be by it."""
    memory.touch(write=False)
    return "".join(f"{_stretch(memory, begin, end)}: {node}\n" for begin, end, node in memory.nodes())


def _stretch(memory: Attached, begin: int, end: int) -> str:
    return f"{memory.offset + begin:016x}-{memory.offset + end:016x}"


def verify(memory: Attached, mode: int, members: frozenset[int]) -> str:
    """What is not as *mode* and *members* say, a line each; makes all pages exist."""
    memory.touch(write=True)
    for begin, _, found, among in memory.policies():
        if found != mode:
            return _wrong(memory, begin, f"wrong policy {policy_name(found)}, expected {policy_name(mode)}")
        if among != members:
            return (
                _wrong(memory, begin, "mismatched node mask")
                + mask("expected", members)
                + mask("real", among)
            )
    if mode == _numa.MPOL_INTERLEAVE:
        return _verify_turns(memory, sorted(members))
    if mode == _numa.MPOL_LOCAL:
        return ""
    return "".join(
        _wrong(memory, begin, f"unexpected node {node}") + mask("expected", members)
        for begin, _, node in memory.nodes()
        if node not in members
    )


def _verify_turns(memory: Attached, members: list[int]) -> str:
    """Pages go round the nodes, from whichever the first one lies on."""
    expected = None
    for begin, end, node in memory.nodes():
        if node not in members:
            return _wrong(memory, begin, f"interleave node out of range {node}")
        if expected is not None and node != expected:
            return _wrong(memory, begin, f"expected interleave node {expected}, got {node}")
        expected = members[(members.index(node) + 1) % len(members)]
        if end - begin > memory.page and expected != node:
            return _wrong(memory, begin + memory.page, f"expected interleave node {expected}, got {node}")
    return ""


def _wrong(memory: Attached, offset: int, text: str) -> str:
    return f"numactl verify {memory.address + offset:x}({offset:x}): {text}\n"
