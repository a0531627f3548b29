"""The site of zerosys's documentation, made by ./dev site; warnings are errors there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import subjects
from sphinx.application import Sphinx

import zerosys

project = "zerosys"
author = "The zerosys developers"
version = release = zerosys.__version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"zerosys {release}"
html_static_path: list[str] = []
myst_heading_anchors = 3
# A code block's second word says where it runs (tests/documented.py); a reader need not see it.
suppress_warnings = ["misc.highlighting_failure"]


def setup(app: Sphinx) -> None:
    """Have the reference made from the docstrings as they are, before the pages are looked for."""
    app.connect("builder-inited", lambda app: subjects.write(Path(app.srcdir, "reference")))
