"""The code of a page of the documentation, run as a reader would: block after block, in one folder.

A fence's second word says where its code runs: `here`, `guest` (several NUMA nodes) or `gpu`. Python
blocks of a page share their names, as typed into one session; a block that begins with a comment such
as `# consumer.py` is saved under that name instead. Shell blocks run under bash -eu, with `zerosys` on
the path. `python documented.py PAGE WHERE` is the child that does it.
"""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from commands import installed

from zerosys.cli import TOOLS

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
    """A sentence for each block of *page* whose mark is missing or unknown, or that has no fence for one."""
    unfenced = [
        f"{page.name}:{number}: code that is only indented, and runs nowhere: fence it"
        for number in _indented(page.read_text().splitlines())
    ]
    return unfenced + [
        f"{page.name}:{block.line}: a block of {block.language or 'no language'} marked {block.place!r}"
        for block in blocks(page)
        if not (
            (block.language in PROSE and not block.place)
            or (block.language in LANGUAGES and block.place in PLACES)
        )
    ]


def _indented(lines: list[str]) -> Iterator[int]:
    """The lines on which a block begins that is code by its indent alone."""
    fenced = listed = False
    for number, (before, line) in enumerate(itertools.pairwise(["", *lines]), 1):
        fenced ^= line.startswith("```")
        if line and not line.startswith(" "):
            listed = line.startswith(("- ", "* ", "1. "))
        if not fenced and not listed and not before.strip() and line.startswith("    "):
            yield number


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
    scripts = installed(folder / "bin", *(f"zerosys-{tool}" for tool in TOOLS))
    # No link: through one, CPython 3.13 does not find its virtual environment.
    (scripts / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (scripts / "python").chmod(0o755)
    environment = os.environ | {"PYTHONPATH": str(tree), "PATH": f"{scripts}:{os.environ['PATH']}"}
    return subprocess.run(
        [sys.executable, __file__, page, place],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
