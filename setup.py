"""Extensions of zerosys. Metadata and the tools' settings are in pyproject.toml."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# ZEROSYS_TRACE=1 builds for the coverage of .pyx lines: slow, never installed.
TRACE = os.environ.get("ZEROSYS_TRACE") == "1"
MACROS = [("_GNU_SOURCE", None)]
if TRACE:
    # Python 3.13's monitoring reports no .pyx line; the older tracing does.
    MACROS += [("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")]
# Cython's generated code has two harmless kinds of its own.
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
if os.environ.get("ZEROSYS_STRICT") == "1":
    # For our own builds: a compiler of tomorrow, which warns of more, shall not refuse a user's.
    WARNINGS.append("-Werror")
# Plain C functions and not Cython's own kind: the interpreter calls them 10 to 20 ns faster, which is
# a sixth of a wrapper's whole cost; "clinic" gives inspect.signature() what "binding" would have.
DIRECTIVES = {
    "language_level": 3,
    "binding": False,
    "linetrace": TRACE,
    "embedsignature": True,
    "embedsignature.format": "clinic",
}
LIBRARIES = {"_numa": ["numa"]}


def compiles(compiler: list[str], text: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(text)
        command = [*compiler, "-c", source, "-o", f"{folder}/probe.o"]
        return subprocess.run(command, capture_output=True).returncode == 0


def require_headers() -> None:
    """End with the sentence to act on, before the compiler fails with a page of its own."""
    compiler = [word for name in ("CC", "CPPFLAGS", "CFLAGS") for word in os.environ.get(name, "").split()]
    if "CC" not in os.environ:
        compiler.insert(0, "cc")
    try:
        if not compiles(compiler, "#include <stdlib.h>\n"):
            sys.exit(
                f"zerosys: {compiler[0]} does not compile the smallest program: install the C library's "
                "headers (apt-get install libc6-dev; dnf install glibc-devel)"
            )
    except FileNotFoundError:
        sys.exit(
            f"zerosys: no C compiler ({compiler[0]}): install one (apt-get install gcc; dnf install gcc)"
        )
    if not compiles(compiler, "#include <numa.h>\n#include <numaif.h>\n"):
        sys.exit(
            "zerosys: numa.h was not found: install libnuma's headers "
            "(apt-get install libnuma-dev; dnf install numactl-devel), or name their folder in CPPFLAGS=-I..."
        )


def extensions() -> list[Extension]:
    return [
        Extension(
            f"zerosys.{source.stem}",
            [f"zerosys/{source.name}"],
            include_dirs=["zerosys"],
            define_macros=MACROS,
            libraries=LIBRARIES.get(source.stem, []),
            depends=[str(header) for header in sorted(Path("zerosys").glob("*.h"))],
            extra_compile_args=["-std=gnu11", "-pthread", "-fvisibility=hidden", *WARNINGS],
        )
        for source in sorted(Path("zerosys").glob("_*.pyx"))
    ]


if __name__ == "__main__":
    if not {"clean", "sdist", "egg_info", "--version"} & set(sys.argv):
        require_headers()
    # The coverage plugin wants the C files beside their sources; it has a tree of its own.
    folder = None if TRACE else "build/c"
    setup(ext_modules=cythonize(extensions(), compiler_directives=DIRECTIVES, build_dir=folder))
