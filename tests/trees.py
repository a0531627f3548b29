"""Machines as folders: small ones that a test writes, and the recorded ones under ZEROSYS_DATA."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write *files*, {path below root: text}; a path that ends in / is an empty folder."""
    for name, text in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return root


def node_files(node: int, *, cpus: str, total: int, free: int = 0, distance: str = "") -> dict[str, str]:
    """The files of one node; memory in kB."""
    folder = f"sys/devices/system/node/node{node}"
    files = {
        f"{folder}/cpulist": f"{cpus}\n",
        f"{folder}/meminfo": f"Node {node} MemTotal: {total} kB\nNode {node} MemFree: {free} kB\n",
    }
    if distance:
        files[f"{folder}/distance"] = f"{distance}\n"
    return files


def recorded_folder() -> Path | None:
    data = os.environ.get("ZEROSYS_DATA")
    folder = Path(data, "sysfs-trees") if data else None
    return folder if folder and folder.is_dir() else None


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """What is expected of each recorded machine, by its name; nothing without ZEROSYS_DATA."""
    folder = recorded_folder()
    return json.loads((folder / "expected.json").read_text()) if folder else {}


@cache
def unpacked(name: str) -> Path:
    """The root of the recorded machine *name*, unpacked once for this process: read it only."""
    folder = recorded_folder()
    assert folder is not None
    into = Path(tempfile.mkdtemp(prefix="zerosys-tree-"))
    atexit.register(shutil.rmtree, into, ignore_errors=True)
    with tarfile.open(folder / f"{name}.tar.bz2") as archive:
        archive.extractall(into, members=filter(_harmless, archive), filter="fully_trusted")
    return into / recorded()[name]["root"]


def _harmless(member: tarfile.TarInfo) -> bool:
    """Whether it leads nowhere outside: a few of the recorded links do."""
    target = os.path.join(os.path.dirname(member.name), member.linkname) if member.issym() else member.name
    inside = not os.path.isabs(target) and os.path.normpath(target).split("/")[0] != ".."
    return inside and (member.isfile() or member.isdir() or member.issym())
