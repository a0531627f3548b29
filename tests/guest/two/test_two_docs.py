"""What the documentation shows of several nodes, run on two; and its pool of huge pages as it was."""

from pathlib import Path

import documented
import pytest

TREE = Path(documented.__file__).resolve().parent.parent
PAGES = [
    page
    for page in sorted((TREE / "docs").rglob("*.md"))
    if any(b.place == "guest" for b in documented.blocks(page))
]
POOL = Path("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages")


def test_there_are_such_pages():
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_runs(page, tmp_path):
    pool = POOL.read_text()
    try:
        done = documented.child(page, "guest", tmp_path)
    finally:
        POOL.write_text(pool)
    assert (done.returncode, done.stderr) == (0, "")
