"""Pools of huge pages by node: read, reserve, give back.

``zerosys.hugepages.reserve(16, node=1)`` adds 16 pages of the default size to node 1's pool.
"""

from __future__ import annotations

import errno
import os
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

from zerosys.errors import PlacementError
from zerosys.machine import node_ids, topology
from zerosys.nodes import format
from zerosys.record import Record
from zerosys.selection import one_node
from zerosys.sizes import parse_size, show_size
from zerosys.sysfs import number, numbered, sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zerosys.nodes import Spec


class Pool(Record):
    """The huge pages of one size on one node, at the time of asking.

    ``size`` is in bytes, all else in pages. ``total`` are in the pool, of which ``free`` are in
    no mapping (a mapping may have reserved them all the same) and ``surplus`` go back to the kernel when
    they are freed: they were taken over the pool's number, or the pool was made smaller under them.
    """

    node: int
    size: int
    total: int
    free: int
    surplus: int

    @property
    def lasting(self) -> int:
        """The number that the pool is set to: what reserve() adds to."""
        return self.total - self.surplus


def pools(root: str | os.PathLike[str] = "/") -> Mapping[int, Mapping[int, Pool]]:
    """{node: {size in bytes: Pool}} for each size that the kernel has; no size without hugetlb.

    A machine without a node directory is node 0.
    """
    return {node: _of_node(_base(root), node) for node in node_ids(root)}


def pool(node: Spec, size: SupportsIndex | str | None = None, *, root: str | os.PathLike[str] = "/") -> Pool:
    """The pool of *node* for pages of *size* ("2MiB", bytes; None: the default size).

    Raises PlacementError(ENODEV) for a node that does not exist, ValueError for a size
    that the kernel has not.
    """
    base, id = _base(root), one_node(node, root=root)
    known = node_ids(root)
    if id not in known:
        raise PlacementError(errno.ENODEV, f"node {id} does not exist; this machine's nodes: {format(known)}")
    of_node = _of_node(base, id)
    wanted = parse_size(size) if size is not None else default_size(root)
    if not of_node and numbered(f"{base}/sys/kernel/mm/hugepages", "hugepages-", "kB"):
        raise ValueError(f"node {id} has no pools of huge pages: it has no memory of its own")
    if wanted not in of_node:
        have = ", ".join(map(show_size, of_node)) or "none: it was built without hugetlb"
        raise ValueError(f"this kernel has no pages of {show_size(wanted)} in pools (sizes: {have})")
    return of_node[wanted]


def default_size(root: str | os.PathLike[str] = "/") -> int:
    """The size in bytes of the huge pages that are meant where none is named; 0 without hugetlb."""
    return sizes(f"{_base(root)}/proc/meminfo").get("Hugepagesize", 0)


def reserve(
    pages: SupportsIndex,
    node: Spec,
    size: SupportsIndex | str | None = None,
    *,
    strict: bool = True,
    root: str | os.PathLike[str] = "/",
) -> Pool:
    """Add *pages* huge pages of *size* to the pool of *node*, and return the pool as it then is.

    The kernel grants fewer without a word where the node's memory is short or in pieces:
    with *strict* these are given back and it is OSError(ENOMEM), which names both numbers and what helps;
    without, the pool tells. The number is the pool's, not ours: others who change it at
    the same time are not seen. Raises also as pool(), and OSError for a refused write.
    """
    before = pool(node, size, root=root)
    count = _count(pages)
    if strict:
        _require(before, count, root)
    try:
        after = _set(before, before.lasting + count, root)
    except KeyboardInterrupt:  # the kernel stopped in the middle
        restore(before, root=root)
        raise
    granted = after.lasting - before.lasting
    if granted < count and strict:
        restore(before, root=root)
        raise OSError(errno.ENOMEM, _short(before, count, granted))
    return after


def give_back(
    pages: SupportsIndex,
    node: Spec,
    size: SupportsIndex | str | None = None,
    *,
    root: str | os.PathLike[str] = "/",
) -> Pool:
    """Take *pages* huge pages of *size* out of the pool of *node*, and return the pool as it then is.

    Pages in use stay with their users, and go back when these free them: ``surplus``.
    Raises ValueError for more than the pool's number, and as reserve().
    """
    before = pool(node, size, root=root)
    count = _count(pages)
    if count > before.lasting:
        raise ValueError(f"{count} pages to give back, and {_of(before)} is set to {before.lasting}")
    return _set(before, before.lasting - count, root)


def restore(before: Pool, *, root: str | os.PathLike[str] = "/") -> Pool:
    """Set the pool to the number that it had; return it as it then is. Raises OSError for a refused write."""
    return _set(before, before.lasting, root)


def _require(before: Pool, count: int, root: str | os.PathLike[str]) -> None:
    """Refuse what cannot be: for it the kernel would gather all that is free, and starve others meanwhile."""
    whole = topology(root).nodes[before.node].memory_total
    if count * before.size > whole > 0:
        raise OSError(errno.ENOMEM, _short(before, count, 0))


def _count(pages: SupportsIndex) -> int:
    count = index(pages)
    if count < 0:
        raise ValueError(f"pages must be >= 0, not {count}: give_back() takes pages out")
    return count


def _base(root: str | os.PathLike[str]) -> str:
    return os.fspath(root).rstrip("/")


def _folder(base: str, node: int) -> str:
    of_node = f"{base}/sys/devices/system/node/node{node}"
    return f"{of_node}/hugepages" if os.path.isdir(of_node) else f"{base}/sys/kernel/mm/hugepages"


def _of_node(base: str, node: int) -> dict[int, Pool]:
    folder = _folder(base, node)
    found = {}
    for kibibytes in numbered(folder, "hugepages-", "kB"):
        kind = f"{folder}/hugepages-{kibibytes}kB"
        total, free, surplus = (number(f"{kind}/{what}_hugepages") or 0 for what in ("nr", "free", "surplus"))
        size = kibibytes * 1024
        found[size] = Pool(node=node, size=size, total=total, free=free, surplus=surplus)
    return found


def _set(before: Pool, lasting: int, root: str | os.PathLike[str]) -> Pool:
    """Write the pool's number, and read what came of it."""
    base = _base(root)
    path = f"{_folder(base, before.node)}/hugepages-{before.size >> 10}kB/nr_hugepages"
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(str(lasting).encode())
    except OSError as refusal:
        raise OSError(
            refusal.errno, f"{os.strerror(refusal.errno or 0)}{_remedy(refusal, before)}", path
        ) from refusal
    return _of_node(base, before.node)[before.size]


def _remedy(refusal: OSError, before: Pool) -> str:
    if refusal.errno == errno.EROFS:
        return ": sysfs is mounted read-only, as in a container; reserve on the host"
    if refusal.errno in (errno.EACCES, errno.EPERM):
        return ": only root may set a pool; run this as root on the host"
    if refusal.errno == errno.EINVAL and before.size >= 1 << 30:
        return ": this kernel sets pages of this size aside only at boot (hugepagesz=, hugepages=)"
    return ""


def _short(before: Pool, asked: int, granted: int) -> str:
    return (
        f"{asked} pages asked of {_of(before)}, {granted} granted and given back: the node's free "
        "memory is too little or in pieces; echo 1 > /proc/sys/vm/compact_memory helps with pieces, "
        f"hugepages= at boot for sure, and strict=False keeps what is granted"
    )


def _of(before: Pool) -> str:
    return f"the pool of {show_size(before.size)} pages of node {before.node}"
