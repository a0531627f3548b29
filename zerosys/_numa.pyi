from collections.abc import Iterable
from typing import Final, SupportsIndex

MPOL_DEFAULT: Final[int]
MPOL_PREFERRED: Final[int]
MPOL_BIND: Final[int]
MPOL_INTERLEAVE: Final[int]
MPOL_LOCAL: Final[int]
MPOL_PREFERRED_MANY: Final[int]
MPOL_WEIGHTED_INTERLEAVE: Final[int]
MPOL_F_STATIC_NODES: Final[int]
MPOL_F_RELATIVE_NODES: Final[int]
MPOL_F_NUMA_BALANCING: Final[int]
MPOL_F_NODE: Final[int]
MPOL_F_ADDR: Final[int]
MPOL_F_MEMS_ALLOWED: Final[int]
MPOL_MF_STRICT: Final[int]
MPOL_MF_MOVE: Final[int]
MPOL_MF_MOVE_ALL: Final[int]
NODES_MAX: Final[int]

def set_mempolicy(mode: SupportsIndex, nodes: Iterable[SupportsIndex] = ()) -> None: ...
def get_mempolicy() -> tuple[int, frozenset[int]]: ...
def get_mempolicy_at(address: SupportsIndex) -> tuple[int, frozenset[int]]: ...
def mems_allowed() -> frozenset[int]: ...
def mbind(
    address: SupportsIndex,
    length: SupportsIndex,
    mode: SupportsIndex,
    nodes: Iterable[SupportsIndex] = (),
    flags: SupportsIndex = 0,
) -> None: ...
def set_mempolicy_home_node(
    address: SupportsIndex, length: SupportsIndex, node: SupportsIndex, flags: SupportsIndex = 0
) -> None: ...
def move_pages(
    pid: SupportsIndex,
    addresses: Iterable[SupportsIndex],
    nodes: Iterable[SupportsIndex] | None = None,
    flags: SupportsIndex = 0,
) -> list[int]: ...
def migrate_pages(
    pid: SupportsIndex, old: Iterable[SupportsIndex], new: Iterable[SupportsIndex]
) -> int: ...
def getcpu() -> tuple[int, int]: ...
def count_statuses(
    address: SupportsIndex, length: SupportsIndex, step: SupportsIndex
) -> dict[int, int]: ...
def move_range(
    address: SupportsIndex,
    length: SupportsIndex,
    step: SupportsIndex,
    node: SupportsIndex,
    flags: SupportsIndex = ...,
) -> dict[int, int]: ...
def available() -> bool: ...
def max_node() -> int: ...
def run_on_node_mask(nodes: Iterable[SupportsIndex]) -> None: ...
def run_on_node(node: SupportsIndex) -> None: ...
def node_of_cpu(cpu: SupportsIndex) -> int: ...
def distance(a: SupportsIndex, b: SupportsIndex) -> int: ...
def node_size(node: SupportsIndex) -> tuple[int, int]: ...
