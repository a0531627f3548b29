"""``zerosys region create``."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from typing import TYPE_CHECKING

from zerosys.cli.region.seeing import warn_of_logout
from zerosys.cli.table import plain
from zerosys.sizes import parse_size as size

if TYPE_CHECKING:
    from zerosys.region import SharedRegion

__all__ = ["create", "size"]


def create(chosen: argparse.Namespace, prog: str) -> int:
    """Make a segment, and stay with it if that was asked."""
    from zerosys.region import SharedRegion

    stay = chosen.hold or chosen.lock
    ends = {signal.SIGINT, signal.SIGTERM}
    with SharedRegion.create(
        chosen.size,
        name=chosen.name,
        node=chosen.node,
        pages=chosen.pages,
        mode=chosen.mode,
        keep=chosen.keep,
        lock=chosen.lock,
    ) as region:
        if stay:  # from here on: whoever reads that it is there may end it at once
            signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        _tell(region, chosen, stay)
        if region.backing.source == "tmpfs":
            warn_of_logout(prog)
        if stay:
            signal.sigwait(ends)
    return 0


def _nodes(region: SharedRegion) -> dict[int, int]:
    """The pages by node; none where the kernel refuses to tell, which is no reason to fail now."""
    try:
        return dict(region.placement().nodes)
    except OSError:
        return {}


def _tell(region: SharedRegion, chosen: argparse.Namespace, stay: bool) -> None:
    where = _nodes(region)
    if chosen.json:
        seen = {
            "name": region.name,
            "size": region.size,
            "mapped_size": region.mapped_size,
            "page_size": region.page_size,
            "backing": region.backing._asdict(),
            "nodes": {str(node): count for node, count in sorted(where.items())},
            "kept": chosen.keep,
            "locked": region.locked,
        }
        print(json.dumps(seen, indent=2), flush=True)
        return
    print(
        f"{plain(region.name or '')}: {region.size} bytes, {region.backing}, pages by node {where}",
        flush=True,
    )
    if stay:
        print("attached here until Ctrl-C or SIGTERM", file=sys.stderr)
    elif not chosen.keep:
        print(
            "nobody has it attached: gc may remove it until somebody has (--keep spares it)", file=sys.stderr
        )
