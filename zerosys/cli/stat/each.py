"""``zerosys stat --each``: every mapping of a process, printed as it is read."""

from __future__ import annotations

import json
import sys

from zerosys.cli import said
from zerosys.cli.stat.report import mib, named
from zerosys.cli.table import plain
from zerosys.numa_maps import read_numa_maps
from zerosys.sizes import show_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from zerosys.numa_maps import MappedRange


def show(chosen: argparse.Namespace, prog: str) -> int:
    """Print a line for each mapping, an object of docs/schemas/stat-each.json with --json."""
    status = 0
    for pid in chosen.pids:
        try:
            for mapped in read_numa_maps(pid):
                print(json.dumps(as_dict(pid, mapped)) if chosen.json else text(mapped))
        except OSError as refusal:
            if isinstance(refusal, BrokenPipeError):
                raise
            print(f"{prog}: {said(refusal)}", file=sys.stderr)
            status = 1
    return status


def as_dict(pid: int, mapped: MappedRange) -> dict[str, object]:
    """*mapped* for JSON; ``pages`` counts pages of ``page_size`` bytes by node."""
    return {
        "pid": pid,
        "address": f"{mapped.address:#x}",
        "policy": mapped.policy,
        "kind": "anonymous" if mapped.use == "other" else mapped.use,
        "file": mapped.file,
        "huge_pool": mapped.huge,
        "page_size": mapped.page_size or None,
        "pages": {str(node): count for node, count in mapped.nodes.items()},
        "counts": mapped.counts,
    }


def text(mapped: MappedRange) -> str:
    """*mapped* in a line: address, policy, MiB by node, page size, what it is."""
    size = mapped.page_size
    where = " ".join(f"N{node}:{mib(count * size)}" for node, count in mapped.nodes.items()) or "-"
    kind = show_size(size) if size else "-"
    what = named((mapped.use, mapped.file or ""))
    return f"{mapped.address:012x}  {plain(mapped.policy)}  {where}  {kind}  {what}"
