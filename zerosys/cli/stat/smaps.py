"""What numa_maps does not tell of a process: transparent huge pages, what is swapped, what is locked."""

from __future__ import annotations

import os
import re

from zerosys.errors import Unsupported
from zerosys.numa_maps import process_lines

#: Of a mapping's bytes, those in pages that the kernel made huge.
_HUGE = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped")
_FIELD = re.compile(r"(\w+): +(\d+) kB")


class Totals:
    """Bytes of the whole process, as smaps_rollup sums them; None where the kernel (before 4.14) has none."""

    def __init__(self, pid: int) -> None:
        try:
            told = dict(filter(None, map(_field, process_lines(pid, "smaps_rollup"))))
        except Unsupported:
            told = {}
        except ProcessLookupError:
            if not os.path.isdir(f"/proc/{pid}"):
                raise
            # A kernel thread, or one that ended and was not waited for: it is there, and has no memory.
            told = dict.fromkeys((*_HUGE, "Swap", "Locked"), 0)
        self.swapped = told.get("Swap")
        self.locked = told.get("Locked")
        self.transparent_huge = sum(told.get(name, 0) for name in _HUGE) if told else None


def _field(line: str) -> tuple[str, int] | None:
    found = _FIELD.match(line)
    return (found[1], int(found[2]) * 1024) if found else None


def transparent_huge(pid: int) -> dict[tuple[str, str], int]:
    """The bytes in transparent huge pages by what is mapped, keyed as Tally.what is."""
    found: dict[tuple[str, str], int] = {}
    key = "other", ""
    for line in process_lines(pid, "smaps"):
        if line.startswith(_HUGE):
            size = _field(line)
            if size and size[1]:
                found[key] = found.get(key, 0) + size[1]
        elif line[0] in "0123456789abcdef":
            key = _what(line)
    return found


def _what(head: str) -> tuple[str, str]:
    words = head.rstrip("\n").split(None, 5)
    name = words[5] if len(words) > 5 else ""
    if name.startswith("/"):
        return "file", name
    return {"[heap]": "heap", "[stack]": "stack"}.get(name, "other"), ""
