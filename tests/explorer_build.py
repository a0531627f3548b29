"""The explorer of interleavings (tests/explorer/), compiled with the scenarios that it is to go through."""

import os
import subprocess
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent / "explorer"
HEADERS = HERE.parent.parent / "zerosys"


@cache
def explorer(scenarios: str, folder: Path) -> Path:
    """Compile ``explorer/SCENARIOS.c`` in *folder*; return the program."""
    built = folder / scenarios
    compiler = os.environ.get("CC", "cc").split()
    options = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{HEADERS}"]
    sources = [HERE / "explorer.c", HERE / f"{scenarios}.c"]
    subprocess.run([*compiler, *options, *sources, "-o", built], check=True)
    return built


def explored(built: Path, *words: str, timeout: float = 100) -> tuple[bool, str]:
    """Whether every promise held, and what the explorer printed; it may not stop for limits of its own."""
    done = subprocess.run([built, *words], capture_output=True, text=True, timeout=timeout)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0, done.stdout


def sites(built: Path, *words: str) -> dict[str, str]:
    """The orderings of the code under test that *words* go through, as FILE:LINE:SYNC, and their strength."""
    held, text = explored(built, "--sites", *words)
    assert held, text
    lines = [line.split() for line in text.splitlines()]
    return {line[1]: line[2] for line in lines if line[0] == "site"}
