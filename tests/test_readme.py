"""What the README shows, runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
TEXT = (TREE / "README.md").read_text()


def test_its_first_script_runs_as_it_stands(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    script = tmp_path / "first.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": TREE},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the child reads the same pages: 2097152\n" in done.stdout


def test_its_links_and_commands_are_there():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT):
        assert (TREE / link).exists(), link
    listed = subprocess.run([TREE / "dev"], capture_output=True, text=True).stdout
    for command in re.findall(r"\./dev (\w+)", TEXT):
        assert f"\n  {command} " in listed
