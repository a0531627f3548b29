"""Debian's own numactl package: its tools, run from outside as any program, are the referees of ours."""

import shutil
import subprocess
from functools import cache

from needs import need

VERSION = "2.0.16"


@cache
def refusal() -> str | None:
    """Why the package is no referee here, or None if it is: installed, and of the version compared."""
    if not shutil.which("dpkg-query"):
        return "this machine has no Debian packages"
    asked = ["dpkg-query", "--show", "--showformat=${Version}", "numactl"]
    version = subprocess.run(asked, capture_output=True, text=True).stdout
    if not version:
        return "the package numactl is not installed: apt-get install numactl"
    return None if version.split("-")[0] == VERSION else f"numactl {version} is here, not {VERSION}"


def tool(name: str) -> str:
    """The path of one of the package's tools, such as numastat."""
    need("numactl", refusal())
    return f"/usr/bin/{name}"
