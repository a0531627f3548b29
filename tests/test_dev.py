"""./dev and setup.py say what is missing, in a sentence, and stop."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parent.parent
# What ./dev itself calls, without what it looks for.
TOOLS = ("sh", "dirname", "cat", "cksum", "id", "mkdir", "nproc", "chmod")


@pytest.fixture
def bare(tmp_path):
    """./dev on a machine that has a shell and little else: run(*arguments, **environment)."""
    tree, tools = tmp_path / "tree", tmp_path / "bin"
    tree.mkdir()
    tools.mkdir()
    for name in ("dev", "pyproject.toml", "setup.py"):
        shutil.copy(TREE / name, tree)
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name))

    def run(*arguments, **environment):
        return subprocess.run(
            [tree / "dev", *arguments],
            env={"PATH": str(tools), "HOME": str(tmp_path), **environment},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    return run


def test_alone_it_lists_its_commands(bare):
    for arguments in ((), ("help",), ("--help",)):
        done = bare(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        for command in "demo test test-all lint types bench stress docs wheel clean".split():
            assert f"\n  {command} " in done.stdout


def test_an_unknown_command_is_named_and_the_list_shown(bare):
    done = bare("tset")
    assert done.returncode == 1
    assert "dev: no such command: tset" in done.stderr
    assert "\n  test " in done.stderr


@pytest.mark.parametrize("command", ["test", "demo", "build"])
def test_without_apt_it_says_what_to_install_and_stops(bare, command):
    done = bare(command, PYTHON=sys.executable, CC="/no/compiler")
    assert done.returncode == 1
    assert "no apt-get. Install what these Debian packages hold" in done.stderr
    assert "gcc libc6-dev" in done.stderr
    assert done.stdout == ""


def test_without_a_python_it_says_which_it_needs(bare):
    done = bare("build")
    assert done.returncode == 1
    assert "no apt-get" in done.stderr
    assert "python3" in done.stderr
    assert "zerosys needs Python 3.11 or newer" in done.stderr


def test_a_python_that_is_too_old_is_refused_by_name(bare, tmp_path):
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = bare("build", PYTHON=str(old))
    assert done.returncode == 1
    assert f"PYTHON={old} is not a Python 3.11 or newer" in done.stderr


def built(tmp_path, compiler):
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext"],
        cwd=TREE, env={**os.environ, "CC": str(compiler)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


REFUSING_NUMA = """#!/bin/sh
for word; do
    case $word in *.c) grep -q numa.h "$word" && { echo 'fatal error: numa.h' >&2; exit 1; } ;; esac
done
exec cc "$@"
"""


def test_a_missing_numa_header_is_a_sentence_and_no_compiler_dump(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text(REFUSING_NUMA)
    compiler.chmod(0o755)
    done = built(tmp_path, compiler)
    assert done.returncode == 1
    assert done.stderr == (
        "zerosys: numa.h was not found: install libnuma's headers "
        "(apt-get install libnuma-dev; dnf install numactl-devel), or name their folder in CPPFLAGS=-I...\n"
    )


def test_a_missing_compiler_is_a_sentence(tmp_path):
    done = built(tmp_path, tmp_path / "absent")
    assert done.returncode == 1
    assert done.stderr.startswith(f"zerosys: no C compiler ({tmp_path}/absent): install one")
    assert done.stderr.count("\n") == 1


def test_a_compiler_without_a_c_library_is_not_blamed_on_numa(tmp_path):
    done = built(tmp_path, "false")
    assert done.returncode == 1
    assert "false does not compile the smallest program" in done.stderr
    assert "numa" not in done.stderr


def test_the_source_is_checked_by_the_shell_itself():
    for script in ("dev", ".ci/run"):
        assert subprocess.run(["sh", "-n", TREE / script], capture_output=True).returncode == 0
