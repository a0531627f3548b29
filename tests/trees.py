"""Machines as folders: small ones that a test writes, and the recorded ones under ZEROSYS_DATA."""

from __future__ import annotations

import json
import os
import tarfile
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


def recorded() -> dict[str, dict[str, Any]]:
    """What is expected of each recorded machine, by its name; nothing without ZEROSYS_DATA."""
    folder = recorded_folder()
    return json.loads((folder / "expected.json").read_text()) if folder else {}


def unpack(name: str, into: Path) -> Path:
    """The root of the recorded machine *name*, unpacked below *into*."""
    folder = recorded_folder()
    assert folder is not None
    with tarfile.open(folder / f"{name}.tar.bz2") as archive:
        archive.extractall(into, filter=_harmless)
    return into / recorded()[name]["root"]


def _harmless(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Leave out what would lead out of the folder: a few of the recorded links do."""
    try:
        kept = tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None
    return kept if kept.isfile() or kept.issym() or kept.isdir() else None
