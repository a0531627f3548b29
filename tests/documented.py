"""The code of a page of the documentation, run as a reader would: block after block, in one folder.

A fence's second word says where its code runs: `here`, `guest` (several NUMA nodes) or `gpu`. Python
blocks of a page share their names, as typed into one session; a block that begins with a comment such
as `# consumer.py` is saved under that name instead. Shell blocks run under bash -eu, with `zerosys` on
the path. `python documented.py PAGE WHERE` is the child that does it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PLACES = ("here", "guest", "gpu")
LANGUAGES = ("python", "sh", "cython", "c")
# Text that nobody runs: output, tables of bytes, configuration.
PROSE = ("", "{toctree}", "text", "json", "ini", "toml", "yaml")
_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w.-]+\.\w+)\n")


class Block(NamedTuple):
    """A fenced block: its language, where it runs, its text, and the line of the page that it begins on."""

    language: str
    place: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of *page*."""
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        language, _, place = fence[1].strip().partition(" ")
        found.append(Block(language, place.strip(), fence[2], text.count("\n", 0, fence.start()) + 2))
    return found


def wrong(page: Path) -> list[str]:
    """A sentence for each block of *page* whose mark is missing or unknown."""
    return [
        f"{page.name}:{block.line}: a block of {block.language or 'no language'} marked {block.place!r}"
        for block in blocks(page)
        if not (
            (block.language in PROSE and not block.place)
            or (block.language in LANGUAGES and block.place in PLACES)
        )
    ]


def run(page: Path, place: str) -> None:
    """Run the blocks of *page* for *place* in the current folder; raises what a block raises."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.place != place:
            continue
        saved = _FILE.match(block.code)
        if saved:
            Path(saved[1]).write_text(block.code)
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.code, page, "exec"), names)
        elif block.language == "sh":
            subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], check=True)
        else:
            raise ValueError(f"{page.name}:{block.line}: {block.language} is run from a file: name it first")
        sys.stdout.flush()


def child(page: Path, place: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run *page* for *place* in *folder*, in an interpreter of its own."""
    tree = Path(__file__).resolve().parent.parent
    scripts = folder / "bin"
    scripts.mkdir()
    (scripts / "zerosys").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zerosys "$@"\n')
    (scripts / "zerosys").chmod(0o755)
    (scripts / "python").symlink_to(sys.executable)
    environment = os.environ | {"PYTHONPATH": str(tree), "PATH": f"{scripts}:{os.environ['PATH']}"}
    return subprocess.run(
        [sys.executable, __file__, page, place],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
