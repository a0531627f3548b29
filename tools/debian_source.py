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
    """Have apt-get fetch the source, from wherever this machine has its packages from."""
    form = "$(REPO_URI) $(CODENAME) $(COMPONENT)"
    asked = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    lines = sorted({line for line in told.splitlines() if line.endswith(" main")})
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    sources = folder / "sources.list"
    sources.write_text("".join(f"deb-src {line}\n" for line in lines))
    options = [
        f"-oDir::Etc::sourcelist={sources}",
        "-oDir::Etc::sourceparts=-",
        f"-oDir::State::lists={lists}",
        "-oAPT::Sandbox::User=",
    ]
    apt = ["apt-get", "-qq", *options]
    subprocess.run([*apt, "update"], cwd=folder, check=True)
    subprocess.run([*apt, "source", "--download-only", f"numactl={VERSION}-1"], cwd=folder, check=True)
