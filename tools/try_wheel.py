"""Try a wheel as a stranger's machine would have it: no libnuma, no headers, no compiler, no sources.

    python tools/try_wheel.py WHEEL

A fresh environment gets the wheel by pip; then, in a mount namespace of its own, what the machine has
of these is covered, and the smoke part of the suite runs against what was installed. Last, with them
again, a module of somebody else is built against it.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
WORK = TREE / "build/wheel/trial"
SMOKE = (
    "test_splice.py test_vmsplice.py test_pipes.py test_memfd.py test_mapping.py test_numa_calls.py"
    " test_placement.py test_region.py test_region_travels.py test_region_names.py test_transfer.py"
).split()
COVERED_FILES = ("/usr/lib/*/libnuma.so*", "/lib/*/libnuma.so*", "/usr/lib64/libnuma.so*", "/usr/bin/*gcc*",
                 "/usr/bin/cc", "/usr/bin/c++", "/usr/bin/*clang*", "/usr/bin/*g++*")  # fmt: skip
COVERED_FOLDERS = ("/usr/include", "/usr/lib/gcc")
IMPORT_ALL = """
import pkgutil, sys, importlib.metadata, zerosys
assert not zerosys.__file__.startswith(sys.argv[1]), zerosys.__file__
for module in pkgutil.walk_packages(zerosys.__path__, "zerosys."):
    if not module.name.endswith("__main__"):
        __import__(module.name)
assert importlib.metadata.version("zerosys") == zerosys.__version__
"""


def covering() -> str:
    """The shell lines that cover what a bare machine has not; they end the shell if one fails."""
    files = sorted({os.path.realpath(path) for pattern in COVERED_FILES for path in glob.glob(pattern)})
    lines = [f"mount --bind /dev/null {path}" for path in files if os.path.isfile(path)]
    lines += [f"mount -t tmpfs none {folder}" for folder in COVERED_FOLDERS if os.path.isdir(folder)]
    gone = [
        "if cc --version 2>/dev/null; then echo 'a compiler is still there' >&2; exit 1; fi",
        'if "$1" -c \'import ctypes; ctypes.CDLL("libnuma.so.1")\' 2>/dev/null; then'
        " echo 'libnuma is still there' >&2; exit 1; fi",
    ]
    return "\n".join(["set -e", *lines, *gone])


def environment(wheel: Path) -> Path:
    """A fresh environment with *wheel* and pytest: its interpreter."""
    shutil.rmtree(WORK, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", WORK / "venv"], check=True)
    python = WORK / "venv/bin/python"
    needs = ["pytest>=8", "pytest-timeout", "hypothesis", "setuptools", "Cython>=3.1"]
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, *needs], check=True
    )
    shutil.copytree(TREE / "tests", WORK / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TREE / "pyproject.toml", WORK)
    return python


def build_against(python: Path) -> None:
    """Build and call somebody else's module, which cimports what *python* has installed."""
    folder = WORK / "tests/foreign"
    subprocess.run([python, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True)
    subprocess.run(
        [python, "-c", "import foreign; assert foreign.nodes()[:2] == (True, False)"], cwd=folder, check=True
    )


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    python = environment(wheel)
    smoke = [f"tests/{name}" for name in SMOKE]
    script = f"""{covering()}
cd {WORK}
"$1" -c '{IMPORT_ALL}' {TREE}/zerosys
venv/bin/zerosys --version
"$1" -m pytest -q -p no:cacheprovider -m "not stress and not guest" {" ".join(smoke)}
"""
    apart = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    done = subprocess.run([*apart, "sh", "-c", script, "sh", python])
    if done.returncode:
        sys.exit(f"wheel: {wheel.name} failed on a bare machine")
    print(f"{wheel.name}: installed and tried without libnuma, headers or compiler", flush=True)
    build_against(python)
    print("and a foreign module builds against it")


if __name__ == "__main__":
    main()
