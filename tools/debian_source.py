"""The source of numactl and libnuma as Debian has it: fetched by apt-get, never part of this tree."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "2.0.16"


def fetch(cache: Path) -> Path:
    """The folder below *cache* with the unpacked source, fetched once."""
    source = cache / f"numactl-{VERSION}"
    if not source.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _download(Path(folder))
            (archive,) = Path(folder).glob("numactl_*.orig.tar.gz")
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")
            Path(folder, source.name).rename(source)
    return source


def _download(folder: Path) -> None:
    """Have apt-get fetch the source, from one of the archives that this machine has its packages from.

    Each is asked alone: one may list a source that it does not hold, as Debian's security archive does.
    """
    refusals = []
    for archive in _archives() or _archives(lists=folder / "lists"):
        refusal = _download_from(archive, folder)
        if refusal is None:
            return
        refusals.append(f"{archive}: {refusal}")
    raise RuntimeError(f"no archive has the source of numactl {VERSION}:\n" + "\n".join(refusals))


def _archives(lists: Path | None = None) -> list[str]:
    """Where packages come from, by what apt-get knows; with *lists*, by what it learns into that folder."""
    options = []
    if lists:
        (lists / "partial").mkdir(parents=True)
        options = [f"-oDir::State::lists={lists}", "-oAPT::Sandbox::User="]
        subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    asked = ["--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"]
    told = subprocess.run(
        ["apt-get", *options, "indextargets", *asked], capture_output=True, text=True, check=True
    ).stdout
    return sorted({line for line in told.splitlines() if line.endswith(" main")}, key=len)


def _download_from(archive: str, folder: Path) -> str | None:
    """Fetch the source from *archive*, ``URI SUITE COMPONENT``, into *folder*; else what apt-get says."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        lists, sources = Path(own, "lists"), Path(own, "sources.list")
        (lists / "partial").mkdir(parents=True)
        sources.write_text(f"deb-src {archive}\n")
        options = [
            f"-oDir::Etc::sourcelist={sources}",
            "-oDir::Etc::sourceparts=-",
            f"-oDir::State::lists={lists}",
            "-oAPT::Sandbox::User=",
        ]
        for words in (["update"], ["source", "--download-only", f"numactl={VERSION}-1"]):
            done = subprocess.run(
                ["apt-get", "-qq", *options, *words], cwd=folder, capture_output=True, text=True
            )
            if done.returncode:
                return done.stderr.strip()
    return None
