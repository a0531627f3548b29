"""A /dev/shm of a command's own: what it lists and removes there is nobody else's."""

import os
import subprocess
from collections.abc import Sequence

_MOUNT = 'mount -t tmpfs -o "size=$0,mode=1777" none /dev/shm && exec "$@"'


def command(words: Sequence[str], *, size: str = "64m") -> list[str]:
    """*words* as a command that sees a fresh /dev/shm of *size*, in a mount namespace of its own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", _MOUNT, size, *words]


def run(words: Sequence[str], *, size: str = "64m", **options) -> subprocess.CompletedProcess:
    """Run *words* so, and capture what it says."""
    return subprocess.run(
        command(words, size=size), **{"capture_output": True, "text": True, "timeout": 60, **options}
    )
