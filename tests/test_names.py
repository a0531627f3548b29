"""Every public name resolves, is described, has a stub, and stands in the reference; loading is lazy."""

import ast
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import zerosys

TREE = Path(__file__).resolve().parent.parent
NAMES = sorted(set(zerosys.__all__) - {"__version__"})
SUBMODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(zerosys.__path__, "zerosys.")
    if not module.name.endswith("__main__")
)


def child(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_the_public_names_survive_the_import_of_every_submodule():
    code = f"""
import importlib, zerosys
for module in {SUBMODULES}: importlib.import_module(module)
for name in {NAMES}:
    assert callable(getattr(zerosys, name)) or not hasattr(getattr(zerosys, name), "__path__"), name
    assert type(getattr(zerosys, name)).__name__ != "module", name + " is a module"
"""
    done = child(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_module_has_the_name_of_a_public_function():
    below = {name.split(".")[1] for name in SUBMODULES}
    assert below.isdisjoint(zerosys.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring(name):
    text = inspect.getdoc(getattr(zerosys, name))
    assert text
    assert text.splitlines()[0].endswith((".", ":"))


def test_the_stub_lists_exactly_the_public_names():
    stub = ast.parse((TREE / "zerosys/__init__.pyi").read_text())
    names = set()
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if node.module != "zerosys"}
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            assert sorted(ast.literal_eval(node.value)) == sorted(zerosys.__all__)
    assert sorted(names) == NAMES


@pytest.mark.parametrize("module", [name for name in SUBMODULES if name.split(".")[-1].startswith("_")])
def test_a_compiled_module_has_its_stub(module):
    assert (TREE / module.replace(".", "/")).with_suffix(".pyi").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_stands_in_the_reference(name):
    assert f"`{name}" in (TREE / "docs/reference.md").read_text(), "run ./dev docs"


def test_dir_lists_the_public_names():
    assert set(zerosys.__all__) <= set(dir(zerosys))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'zerosys' has no attribute 'spice'"):
        zerosys.spice  # noqa: B018


def test_importing_loads_nothing_of_weight_and_says_nothing():
    done = child("""
import sys
before = set(sys.modules)
import zerosys
heavy = {"numpy", "psutil", "cuda", "ctypes", "multiprocessing", "subprocess"} & (set(sys.modules) - before)
maps = open("/proc/self/maps").read()
loaded = [name for name in sys.modules if name.startswith("zerosys.")]
print(sorted(heavy), "libnuma" in maps, "libcuda" in maps, loaded)
""")
    assert (done.stdout, done.stderr) == ("[] False False []\n", "")


def test_the_headers_are_where_get_include_says():
    assert (Path(zerosys.get_include()) / "_splice.h").exists()
    assert (Path(zerosys.get_include()) / "_splice.pxd").exists()
