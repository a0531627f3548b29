"""``zerosys region ls`` and ``show``."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import stat
import sys

from zerosys import logout, names
from zerosys.cli.table import plain, table
from zerosys.segments import IN_USE, ORPHAN, Segment, listing, segment
from zerosys.sizes import show_size

_HEAD = ("NAME", "SIZE", "PAGES", "NODES", "MODE", "OWNER", "STATE", "ATTACHED")


def ls(chosen: argparse.Namespace, prog: str) -> int:
    """List every segment."""
    found = listing()
    if chosen.json:
        print(json.dumps([one.to_dict() for one in found], indent=2))
    else:
        print(text(found))
    if any(one.uid == os.geteuid() and one.path.startswith(names.SHM) for one in found):
        warn_of_logout(prog)
    return 0


def show(chosen: argparse.Namespace, prog: str) -> int:
    """Tell all about one segment."""
    one = segment(names.checked(chosen.name))
    if chosen.json:
        print(json.dumps(one.to_dict(), indent=2))
        return 0
    facts = {
        "name": plain(one.name),
        "path": plain(one.path),
        "size": f"{one.size} bytes" if show_size(one.size).endswith("bytes") else
                f"{show_size(one.size)} ({one.size} bytes)",
        "pages": f"{one.pages} of {show_size(one.page_size)} exist, of {-(-one.size // one.page_size)}",
        "nodes": _nodes(one),
        "mode": f"{one.mode & 0o777:04o}",
        "owner": _owner(one.uid),
        "state": one.state,
        "attached": _attached(one, apart="\n            "),
    }  # fmt: skip
    lines = [f"{word + ':':<11} {fact}" for word, fact in facts.items()]
    print("\n".join(lines + _note([one])))
    return 0


def text(found: list[Segment]) -> str:
    """The listing as a table, with a line on what could not be seen."""
    rows = [
        (
            plain(one.name),
            show_size(one.size),
            f"{one.pages} x {show_size(one.page_size)}",
            _nodes(one),
            stat.filemode(one.mode & 0o777)[1:],
            _owner(one.uid),
            one.state,
            _attached(one),
        )
        for one in found
    ]
    return "\n".join([table(_HEAD, rows, right="SIZE PAGES"), *_note(found)])


def _note(found: list[Segment]) -> list[str]:
    """What a question mark means, where there may be one."""
    unread = max((one.unread for one in found), default=0)
    if not unread:
        return []
    return [f"?: {unread} {'processes' if unread > 1 else 'process'} could not be asked what they map"]


def warn_of_logout(prog: str) -> None:
    """Say in one line on stderr that logging out takes this user's names away, if it does."""
    warning = logout.takes_names()
    if warning:
        print(f"{prog}: {warning}", file=sys.stderr)


def _nodes(one: Segment) -> str:
    counts = [f"{node}:{count}" for node, count in sorted(one.nodes.items())]
    if one.unplaced:
        counts.append(f"?:{one.unplaced}")
    return " ".join(counts) or "-"


def _owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _attached(one: Segment, *, apart: str = ", ") -> str:
    known = [f"{process.pid} {plain(process.command)}" for process in one.attached]
    if one.state != ORPHAN and (one.unread or (one.state == IN_USE and not known)):
        known.append("?")
    return apart.join(known) or "-"
