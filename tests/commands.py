"""The command as an installation has it: a script of its own name, or a link of a tool's."""

import subprocess
import sys
from pathlib import Path

_SCRIPT = """#!{python}
import sys

from zerosys.cli import main

if __name__ == "__main__":
    sys.exit(main())
"""


def installed(folder: Path, *tools: str) -> Path:
    """Make ``zerosys`` in *folder*, with a link for each of *tools*; return *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "zerosys"
    script.write_text(_SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    for tool in tools:
        (folder / tool).symlink_to("zerosys")
    return folder


def zerosys(*arguments: str, **options) -> subprocess.CompletedProcess:
    """Run ``zerosys`` with *arguments*; capture what it says."""
    return subprocess.run(
        [sys.executable, "-m", "zerosys", *arguments],
        **{"capture_output": True, "text": True, "timeout": 60, **options},
    )
