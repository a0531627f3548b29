"""The manual page and the site's are made from the parsers, are fresh, and are what they should be."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
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


def made(tool):
    """What a tool of tools/ makes of the parsers as they are now."""
    code = f"import sys; sys.path.insert(0, 'tools'); import {tool}; sys.stdout.write({tool}.page())"
    done = subprocess.run([sys.executable, "-c", code], cwd=TREE, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(("tool", "page"), [("manpage", "zerosys.1"), ("manual", "man.md")])
def test_the_page_in_the_tree_is_the_one_that_the_parsers_make(tool, page):
    assert (TREE / "docs" / page).read_text() == made(tool), "run ./dev docs"


def test_each_command_and_option_stands_in_the_sites_page():
    sections = (TREE / "docs" / "man.md").read_text().split("\n#")
    for command in [*tree.whole().parts, *tree.tools()]:
        for part in command.walk():
            (section,) = [one for one in sections if one.partition("\n")[0].strip("# ") == part.name]
            for option in part.options:
                assert all(f"`{name}" in section for name in option.names), (part.name, option.names)
