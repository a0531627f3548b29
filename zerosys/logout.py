"""Whether logging out would take a user's shared memory away: systemd-logind's RemoveIPC."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

# In this order, systemd reads them: the first main file there is, then all drop-ins by name, where
# a name in an earlier folder hides the same name in a later one.
_FOLDERS = ("etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd")
_TRUE = {"1", "yes", "y", "true", "t", "on"}
_FALSE = {"0", "no", "n", "false", "f", "off"}


def takes_names(uid: int | None = None, *, root: Path = Path("/")) -> str | None:
    """What takes the names in /dev/shm of user *uid* (of this process) at logout, and how to stop it.

    None where nothing does: no logind, a system user, one who lingers, or RemoveIPC=no.
    *root* is where the files of the machine are looked for. See logind.conf(5).
    """
    uid = os.geteuid() if uid is None else uid
    if not (root / "run/systemd/seats").is_dir() or uid <= _last_system_uid(root):
        return None
    if not _removes(root) or _lingers(uid, root):
        return None
    return (
        f"systemd-logind removes the names of user {uid} in /dev/shm when the last session of that user ends:"
        " set RemoveIPC=no in /etc/systemd/logind.conf, or run loginctl enable-linger"
    )


def _last_system_uid(root: Path) -> int:
    try:
        for line in (root / "etc/login.defs").read_text(errors="replace").splitlines():
            word, _, value = line.partition("#")[0].strip().replace("\t", " ").partition(" ")
            if word == "SYS_UID_MAX":
                return int(value, 0)
    except (OSError, ValueError):
        pass
    return 999


def _lingers(uid: int, root: Path) -> bool:
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return False
    return (root / "var/lib/systemd/linger" / name).exists()


def _removes(root: Path) -> bool:
    removes = True  # as systemd is built
    for file in _files(root):
        removes = _setting(file, removes)
    return removes


def _files(root: Path) -> list[Path]:
    main = [path for folder in _FOLDERS if (path := root / folder / "logind.conf").is_file()]
    drops: dict[str, Path] = {}
    for folder in _FOLDERS:
        for path in (root / folder / "logind.conf.d").glob("*.conf"):
            drops.setdefault(path.name, path)
    return main[:1] + [drops[name] for name in sorted(drops)]


def _setting(file: Path, before: bool) -> bool:
    """The last RemoveIPC of *file* that means something; *before* if there is none."""
    section = ""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return before
    for line in map(str.strip, lines):
        if line.startswith("["):
            section = line
        key, equals, value = (part.strip() for part in line.partition("="))
        if section == "[Login]" and key == "RemoveIPC" and equals:
            word = value.lower()
            before = True if word in _TRUE else False if word in _FALSE else before
    return before
