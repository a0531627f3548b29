"""The manual page is made from the parsers, and is a manual page."""

import shutil
import subprocess
import sys
from pathlib import Path

from needs import need

from zerosys.cli import tree

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "docs" / "zerosys.1"


def rendered(page=PAGE):
    need("groff", None if shutil.which("groff") else "groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-rLL=100n", "-P-cbou", page], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_renders_without_a_warning():
    text = rendered()
    assert "zerosys - zero-copy calls" in text and "\\" not in text.replace("\\n", "")


def test_every_command_tool_and_option_stands_in_it():
    """As the tree has it: for each command its section, in it each option."""
    text = rendered()
    sections = text.split("\n   zerosys")
    for command in [*tree.whole().parts, *tree.tools()]:
        for part in command.walk():
            start = part.name.removeprefix("zerosys") + "\n"
            (section,) = [one for one in sections if one.startswith(start)] or ["run ./dev docs"]
            for option in part.options:
                assert all(name in section for name in option.names), (part.name, option.names)


def test_the_tool_makes_a_page_without_a_warning(tmp_path):
    code = "import sys; sys.path.insert(0, 'tools'); import manpage; sys.stdout.write(manpage.page())"
    done = subprocess.run([sys.executable, "-c", code], cwd=TREE, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "zerosys.1"
    made.write_text(done.stdout)
    assert "zerosys-numactl" in rendered(made)
