"""Imports go only down: the rule holds in the package, and the reader of imports sees what it should."""

from pathlib import Path

import pytest
from layers import graph_of, violations

PACKAGE = Path(__file__).resolve().parent.parent / "zerosys"


def test_the_package_keeps_the_layer_rule():
    assert violations(PACKAGE) == []


def test_the_reader_sees_the_imports_there_are():
    assert {"_args", "_result"} <= graph_of(PACKAGE)["_splice"]


def planted(folder, **files):
    root = folder / "zerosys"
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_DOT_")
        file = root / f"{stem.replace('_IN_', '/')}.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return violations(root)


@pytest.mark.parametrize(
    ("files", "seen"),
    [
        ({"nodes_DOT_py": "from zerosys.region import SharedRegion", "region_DOT_py": ""}, "higher layer"),
        ({"nodes_DOT_py": "from zerosys import region", "region_DOT_py": ""}, "higher layer"),
        ({"nodes_DOT_py": "from . import region", "region_DOT_py": ""}, "higher layer"),
        ({"nodes_DOT_py": "import zerosys.region as r", "region_DOT_py": ""}, "higher layer"),
        ({"nodes_DOT_py": "def f():\n    from .region import g", "region_DOT_py": ""}, "higher layer"),
        ({"_mmap_DOT_pyx": "from zerosys.flags cimport x", "flags_DOT_py": ""}, "higher layer"),
        ({"_mmap_DOT_pxd": "cimport zerosys.flags", "flags_DOT_py": ""}, "higher layer"),
        ({"_mmap_DOT_pyx": "from zerosys cimport _numa", "_numa_DOT_pxd": ""}, "layer 0 stands on"),
        (
            {"_mmap_DOT_pyx": "from zerosys._numa import (\n    bind)", "_numa_DOT_pyx": ""},
            "layer 0 stands on",
        ),
        ({"ring_IN_a_DOT_py": "from zerosys.pumps import pump", "pumps_IN_a_DOT_py": ""}, "halls"),
        ({"ring_IN_a_DOT_py": "from ..cuda.b import c", "cuda_IN_b_DOT_py": ""}, "halls"),
        ({"flags_DOT_py": "import zerosys.nodes", "nodes_DOT_py": "import zerosys.flags"}, "go round"),
        ({"ring_IN_a_DOT_py": "from . import b", "ring_IN_b_DOT_py": "from .a import c"}, "go round"),
        ({"stray_DOT_py": ""}, "in no layer"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, files, seen):
    wrong = planted(tmp_path, **files)
    assert len(wrong) == 1
    assert seen in wrong[0]


def test_allowed_imports_are_not_reported(tmp_path):
    assert (
        planted(
            tmp_path,
            _result_DOT_pxd="",
            _mmap_DOT_pyx='"""from zerosys.region import nothing"""\nfrom zerosys._result cimport x',
            region_DOT_py="from zerosys import _mmap, nodes\nfrom zerosys.handle import send",
            handle_DOT_py="from zerosys._mmap import memfd_create",
            nodes_DOT_py="from os import path",
            cli_IN_main_DOT_py="from zerosys.ring.a import b\nimport zerosys.region",
            ring_IN_a_DOT_py="from .b import c\nfrom zerosys.region import d",
            ring_IN_b_DOT_py="",
        )
        == []
    )
