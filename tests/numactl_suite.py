"""numactl's own shell tests, run with Debian's numactl and with ours, in a guest: what differs is printed.

    python tests/numactl_suite.py [--shape SHAPE] [SCRIPT...]

Debian's source package brings them: fetched with apt-get into ~/.cache/zerosys, run from there, never
part of this tree (they are under the GPL). Ends with 1 where a script ends otherwise with our command.
Known differences are in docs/numactl.md.
"""

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import guest
from commands import installed

from zerosys.cli import TOOLS

sys.path.insert(0, str(guest.TREE / "tools"))
from debian_source import fetch

SCRIPTS = ("checkaffinity", "checktopology", "bind_range", "regress", "shmtest")
DEBIAN = {name: Path("/usr/bin", name) for name in ("numactl", "numastat", "migratepages", "memhog")}
HELPERS = ("pagesize", "ftok")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "zerosys")


def prepare(source: Path, folder: Path, tools: dict[str, Path]) -> None:
    """A build folder such as the scripts expect: their helpers built, *tools* in the tools' places."""
    shutil.copytree(source / "test", folder / "test")
    for helper in HELPERS:
        subprocess.run(
            ["cc", "-w", "-o", folder / "test" / helper, folder / "test" / f"{helper}.c"], check=True
        )
    for name, path in tools.items():
        (folder / name).symlink_to(path)


def run(folder: Path, script: str, shape: str) -> tuple[int, str]:
    """How *script* ended in a guest of *shape*, and all that it said."""
    environment = f"srcdir={folder} builddir={folder} PATH={folder}:$PATH"
    line = f"cd {folder}/test && {environment} timeout 900 bash ./{script} 2>&1 <&-"
    done = guest.run(shape, ["bash", "-c", line], timeout=1000)
    return done.returncode, done.stdout + done.stderr


def plain(text: str) -> list[str]:
    """The lines of *text* without what differs from run to run: memory, counters, keys, folders."""
    text = re.sub(r"/\S*/(ours|theirs)\b", "BUILD", text)
    text = re.sub(r"\b(free|size): \d+", r"\1: ?", text)
    return [re.sub(r"\d{3,}", "?", line) for line in text.splitlines()]


def main(scripts: list[str], shape: str) -> int:
    source, status = fetch(CACHE), 0
    with tempfile.TemporaryDirectory(prefix="numactl-suite-") as temporary:
        folder = Path(temporary)
        commands = installed(folder / "bin", *TOOLS)
        places = {"theirs": DEBIAN, "ours": DEBIAN | {name: commands / name for name in TOOLS}}
        for name, tools in places.items():
            prepare(source, folder / name, tools)
        for script in scripts:
            theirs, mine = (run(folder / name, script, shape) for name in places)
            verdict = "same" if mine[0] == theirs[0] else "DIFFERENT"
            print(f"{script}: Debian's ends with {theirs[0]}, ours with {mine[0]}: {verdict}")
            status |= mine[0] != theirs[0] and mine[0] not in (0, 77)
            sys.stdout.writelines(
                f"    {line}\n"
                for line in difflib.unified_diff(
                    plain(theirs[1]), plain(mine[1]), "Debian's", "ours", n=1, lineterm=""
                )
            )
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--shape", choices=sorted(guest.SHAPES), default="two", help="a guest of tests/guest.py"
    )
    parser.add_argument(
        "scripts",
        nargs="*",
        metavar="SCRIPT",
        default=SCRIPTS,
        help=f"of {', '.join(SCRIPTS)} (default: all)",
    )
    chosen = parser.parse_args()
    sys.exit(main(chosen.scripts, chosen.shape))
