"""A Cython module of somebody else's cimports the public pxds, builds against get_include(), and works."""

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ends import no_descriptor_left

from zerosys._mmap import Mapping


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    for name in ("setup.py", "foreign.pyx"):
        shutil.copy(Path(__file__).parent / "foreign" / name, folder)
    built = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    (library,) = folder.glob("foreign*.so")
    spec = importlib.util.spec_from_file_location("foreign", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_moves_bytes_with_c_splice(foreign, tmp_path):
    with no_descriptor_left():
        source, sink = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("a", "b"))
        os.write(source, bytes(range(256)) * 1000)
        r, w = os.pipe()
        assert foreign.pump(source, w, r, sink, 256_000) == 256_000
        assert os.pread(sink, 300_000, 0) == bytes(range(256)) * 1000
        for fd in (source, sink, r, w):
            os.close(fd)


def test_it_lends_memory_with_c_vmsplice(foreign):
    r, w = os.pipe()
    assert foreign.lend(w, b"lent") == 4
    assert os.read(r, 10) == b"lent"
    os.close(r)
    os.close(w)


def test_a_refusal_is_minus_errno_and_no_exception(foreign, tmp_path):
    assert foreign.refusal(-1, -1) == -errno.EBADF


def test_it_maps_memory(foreign):
    assert foreign.mapped(1 << 20) == (True, 0, 0)


def test_it_knows_our_mapping_type(foreign):
    with Mapping(None, 4096) as mapping:
        assert foreign.is_mapping(mapping)
    with pytest.raises(TypeError):
        foreign.is_mapping(b"")


def test_it_builds_node_masks(foreign):
    assert foreign.nodes() == (True, False, 0)
