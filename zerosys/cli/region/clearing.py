"""``zerosys region rm`` and ``gc``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from zerosys import names, segments
from zerosys.cli import said
from zerosys.cli.region.seeing import text
from zerosys.segments import ORPHAN, Segment


def rm(chosen: argparse.Namespace, prog: str) -> int:
    """Remove each name; go on after one that cannot be."""
    removed: list[str] = []
    for name in chosen.names:
        try:
            removed.append(segments.remove(names.checked(name)))
        except (OSError, ValueError) as refusal:
            print(f"{prog}: {said(refusal)}", file=sys.stderr)
    if chosen.json:
        print(json.dumps({"removed": removed}, indent=2))
    return 0 if len(removed) == len(chosen.names) else 1


def gc(chosen: argparse.Namespace, prog: str) -> int:
    """Remove the orphans that this user may remove."""
    orphans = [one for one in segments.listing() if one.state == ORPHAN]
    ours = [one for one in orphans if os.geteuid() in (0, one.uid)]
    if not chosen.json:
        print(text(ours) if ours else "no orphans")
        if len(orphans) > len(ours):
            print(f"{prog}: {len(orphans) - len(ours)} more are other users', for them or root to remove",
                  file=sys.stderr)  # fmt: skip
    remove, status = _agreed(chosen, prog, len(ours))
    removed, refused = _collect(ours, prog) if remove else ([], 0)
    if chosen.json:
        print(json.dumps({"orphans": [one.to_dict() for one in ours], "removed": removed}, indent=2))
    elif remove:
        print(f"removed {len(removed)}")
    return 1 if refused else status


def _agreed(chosen: argparse.Namespace, prog: str, count: int) -> tuple[bool, int]:
    """Whether to remove, and the exit status where that was not settled."""
    if chosen.dry_run or not count:
        return False, 0
    if chosen.yes:
        return True, 0
    if chosen.json or not sys.stdin.isatty():
        print(
            f"{prog}: nothing was removed: pass --yes to remove, or --dry-run to list only", file=sys.stderr
        )
        return False, 1
    try:
        answer = input(f"remove {count}? [y/N] ")
    except EOFError:
        print()
        answer = ""
    return answer.strip().lower() in ("y", "yes"), 0


def _collect(orphans: Sequence[Segment], prog: str) -> tuple[list[str], int]:
    """Remove what is an orphan still; the paths removed, and how many were refused."""
    removed, refused = [], 0
    for one in orphans:
        try:
            if names.collect(one.path):
                removed.append(one.path)
            elif os.path.lexists(one.path):
                print(f"{prog}: {one.path} was attached meanwhile, and stays", file=sys.stderr)
        except OSError as refusal:
            refused += 1
            print(f"{prog}: {said(refusal)}", file=sys.stderr)
    return removed, refused
