"""Every example runs without arguments, proves its point, and stays short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from seccomp import POLICY_CALLS, Refuse, refused

TREE = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(
    str(path.relative_to(TREE))
    for path in (TREE / "examples").rglob("*.py")
    if "build" not in path.relative_to(TREE).parts
)


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_and_prints_what_it_proved(example, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(TREE)}
    done = subprocess.run(
        [sys.executable, "-W", "error", TREE / example],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


@pytest.mark.parametrize("file", sorted((TREE / "examples").rglob("*.py*")), ids=lambda path: path.name)
def test_an_example_is_short(file):
    assert len(file.read_text().splitlines()) < 80


def test_placing_says_so_where_it_is_refused():
    rules = [Refuse(call, 1) for call in POLICY_CALLS]
    command = [sys.executable, str(TREE / "examples/place_and_prove.py")]
    done = refused(rules, command, env=os.environ | {"PYTHONPATH": str(TREE)})
    assert done.returncode == 0, done.stderr
    assert "not placed, and said so" in done.stdout
