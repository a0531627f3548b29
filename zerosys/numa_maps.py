"""/proc/PID/numa_maps: each mapping of a process, its policy, and its pages by node.

The kernel walks the page tables itself and leaves out what is not there, so that a process that
maps terabytes and touches little is told at once; nothing is done here page by page.
"""

from __future__ import annotations

import errno
import os

from zerosys.errors import PlacementError, Unsupported

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal


class MappedRange:
    """One mapping of a process: where it begins, and its pages by node.

    ``policy`` is the kernel's text (``default``, ``bind:0-1``, ``prefer (many):0`` ...).
    ``nodes`` counts pages that are mapped, of ``page_size`` bytes each; ``counts`` are the kernel's
    other numbers in pages (anon, dirty, mapped, mapmax, active, writeback, swapcache). ``use`` is what the
    kernel says that the mapping is for; ``huge`` that its pages are from a pool.
    """

    __slots__ = ("address", "counts", "file", "huge", "nodes", "page_size", "policy", "use")

    def __init__(self, address: int, policy: str) -> None:
        self.address, self.policy = address, policy
        self.file: str | None = None
        self.use: Literal["heap", "stack", "file", "other"] = "other"
        self.huge = False
        self.page_size = 0
        self.nodes: dict[int, int] = {}
        self.counts: dict[str, int] = {}

    def __repr__(self) -> str:
        what = self.file or self.use
        return f"<MappedRange {self.address:#x} {self.policy} {what}: {self.nodes} of {self.page_size}>"


def read_numa_maps(pid: int, *, root: str = "") -> Iterator[MappedRange]:
    """The mappings of process *pid* (0: this one), in the order of their addresses, as they are read.

    Raises ProcessLookupError where there is no such process (any more), PlacementError(EACCES) for
    one that may not be looked into, Unsupported for a kernel without NUMA.
    """
    return map(parse_range, process_lines(pid, "numa_maps", root=root))


def bytes_by_node(pid: int, *, root: str = "") -> dict[int, int]:
    """The memory that process *pid* has mapped on each node, in bytes; raises as read_numa_maps().

    Pages of every size count, those of several processes whole.
    """
    # Most of a process's mappings end alike ("N0=1 kernelpagesize_kB=4"): each ending is read once.
    endings: dict[str, int] = {}
    for line in process_lines(pid, "numa_maps", root=root):
        at = line.find(" N")
        if at >= 0:
            ending = line[at:]
            endings[ending] = endings.get(ending, 0) + 1
    found: dict[int, int] = {}
    for ending, times in endings.items():
        mapped = parse_range(f"0 default{ending}")
        for node, pages in mapped.nodes.items():
            found[node] = found.get(node, 0) + pages * mapped.page_size * times
    return dict(sorted(found.items()))


def process_lines(pid: int, name: str, *, root: str = "") -> Iterator[str]:
    """The lines of *pid*'s file *name*, such as smaps, as they are read; raises as read_numa_maps()."""
    whose = f"{root}/proc/{pid or 'self'}"
    try:
        with open(f"{whose}/{name}", errors="surrogateescape", newline="\n") as lines:
            yield from lines
    except FileNotFoundError:
        raise _missing(pid, whose) from None
    except ProcessLookupError:
        raise ProcessLookupError(errno.ESRCH, f"process {pid} ended while it was looked at") from None
    except PermissionError as refusal:
        raise PlacementError(
            refusal.errno,
            f"process {pid} belongs to another user, or may not be looked into: be that user, or have "
            "CAP_SYS_PTRACE",
        ) from refusal


def _missing(pid: int, whose: str) -> OSError:
    if os.path.isdir(whose):
        return Unsupported(
            errno.ENOSYS, "this kernel was built without NUMA: it does not tell of pages by node"
        )
    require_procfs(os.path.dirname(whose))
    return ProcessLookupError(errno.ESRCH, f"there is no process {pid}")


def require_procfs(folder: str = "/proc") -> None:
    """Raise Unsupported where nothing can be told of any process."""
    if not os.path.isdir(f"{folder}/self"):
        raise Unsupported(errno.ENOSYS, f"procfs is not mounted: mount -t proc proc {folder}")


def parse_range(line: str) -> MappedRange:
    """Read one line; words that are not known are left out."""
    # At spaces alone: the kernel escapes these in a file's name, and no other white space that it may have.
    words = line.rstrip("\n").split(" ")
    # Two of the policies have a space inside: "prefer (many):0" and "weighted interleave:0".
    start = 3 if words[1] == "weighted" or (words[2:] and words[2].startswith("(many)")) else 2
    found = MappedRange(int(words[0], 16), " ".join(words[1:start]))
    for word in words[start:]:
        key, equals, value = word.partition("=")
        if not equals:
            _flag(found, key)
        elif key == "file":
            found.file, found.use = _unescaped(value), "file"
        elif key == "kernelpagesize_kB":
            found.page_size = int(value) * 1024
        elif key[0] == "N" and key[1:].isdigit():
            found.nodes[int(key[1:])] = int(value)
        elif value.isdigit():
            found.counts[key] = int(value)
    return found


def _unescaped(path: str) -> str:
    for octal in ("040", "011", "012", "075", "134"):  # the backslash itself last
        path = path.replace(f"\\{octal}", chr(int(octal, 8)))
    return path


def _flag(found: MappedRange, word: str) -> None:
    if word == "heap":
        found.use = "heap"
    elif word == "stack":
        found.use = "stack"
    elif word == "huge":
        found.huge = True
