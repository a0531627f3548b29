"""What the documentation shows, runs; and the site is made without a warning."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import documented
import pytest

import zerosys

TREE = Path(__file__).resolve().parent.parent
PAGES = sorted((TREE / "docs").rglob("*.md"))


def shown(page):
    return str(page.relative_to(TREE / "docs"))


def test_there_are_pages():
    assert {"index.md", "tutorial.md", "concepts.md", "reference.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_each_block_says_where_it_runs(page):
    assert documented.wrong(page) == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.place == "here" for b in documented.blocks(page))], ids=shown
)
def test_what_a_page_shows_runs(page, tmp_path):
    done = documented.child(page, "here", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_block_without_a_mark_and_one_that_fails_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n1 / 0\n```\n\n```python here\nx = 1\n```\n\n```python here\nassert x == 2\n```\n"
        "- an item\n\n    and more of it\n\nAs here:\n\n    code without a fence\n"
    )
    assert documented.wrong(page) == [
        "page.md:18: code that is only indented, and runs nowhere: fence it",
        "page.md:2: a block of python marked ''",
    ]
    folder = tmp_path / "run"
    folder.mkdir()
    done = documented.child(page, "here", folder)
    assert done.returncode == 1 and f'{page}", line 10' in done.stderr and "AssertionError" in done.stderr


def test_the_sites_reference_has_every_public_name_with_its_whole_docstring(monkeypatch):
    monkeypatch.syspath_prepend(TREE / "tools")
    pages = "".join(importlib.import_module("subjects").pages().values())
    told = " ".join(pages.replace("\\", "").split())
    for module in (zerosys, zerosys.cuda, zerosys.ring, importlib.import_module("zerosys.pumps.aio")):
        for name in set(module.__all__) - set(zerosys._MODULES) - {"__version__", "State", "STATES"}:
            assert f"# {name}\n" in pages, name
            text = inspect.getdoc(getattr(module, name)) or ""
            assert " ".join(text.replace("\\", "").split()) in told, name


def test_the_site_is_made_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", TREE / "docs", tmp_path],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "zerosys" in (tmp_path / "index.html").read_text()
