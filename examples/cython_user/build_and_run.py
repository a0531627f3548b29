"""A Cython user: count.pyx cimports zerosys, is built in a temporary folder, and runs.

python examples/cython_user/build_and_run.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import zerosys

HERE = Path(__file__).resolve().parent
SETUP = f"""
from Cython.Build import cythonize
from setuptools import Extension, setup
count = Extension("count", ["count.pyx"], include_dirs=[{zerosys.get_include()!r}],
                  define_macros=[("_GNU_SOURCE", None)])
setup(ext_modules=cythonize([count], language_level=3))
"""


def build(folder: Path) -> None:
    (folder / "count.pyx").write_text((HERE / "count.pyx").read_text())
    (folder / "setup.py").write_text(SETUP)
    # Cython finds zerosys' .pxd files where Python finds zerosys.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    built = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if built.returncode:
        sys.exit(built.stdout + built.stderr)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        sys.path.insert(0, folder)
        from count import discard

        reader, writer = os.pipe()
        with open("/dev/null", "wb") as null:
            os.write(writer, bytes(50_000))
            moved, calls = discard(reader, null.fileno(), 50_000)
        assert moved == 50_000
        assert discard(reader, -1, 1)[0] < 0  # -errno, not an exception
        os.close(reader)
        os.close(writer)
        print(f"{moved:,} bytes spliced away in {calls} system calls, without the GIL")


if __name__ == "__main__":
    main()
