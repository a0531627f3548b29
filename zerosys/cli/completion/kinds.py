"""What a shell can offer for a value, told from what the value is called."""

from __future__ import annotations

_KINDS = {
    "file": "FILE FIRST",
    "folder": "FOLDER",
    "node": "NODE NODES",
    "cpu": "CPU CPUS",
    "pid": "PID",
}


def kind_of(value: str, choices: list[str]) -> str:
    """One of words, file, folder, node, cpu, pid, or nothing, for a value of this name."""
    if choices:
        return "words"
    first = value.replace("|", " ").partition(" ")[0].upper()
    return next((kind for kind, names in _KINDS.items() if first in names.split()), "nothing")
