"""What needs several nodes: one test a guest, which runs every file of tests/guest/SHAPE/ inside it."""

import subprocess

import guest
import pytest

FOLDER = guest.TREE / "tests" / "guest"


@pytest.mark.guest
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", sorted(guest.SHAPES))
def test_everything_passes_on_the_nodes_of(shape):
    print(guest.run_tests(shape))


def test_every_folder_has_a_shape():
    assert {p.name for p in FOLDER.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(guest.SHAPES)


def judged(folder, text):
    inner = folder / "test_inner.py"
    inner.write_text(text)
    return guest.judge(
        subprocess.run(guest.pytest_command(str(inner)), cwd=guest.TREE, capture_output=True, text=True)
    )


def test_a_pass_inside_is_a_pass(tmp_path):
    assert "1 passed" in judged(tmp_path, "def test_right(): pass")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("def test_wrong(): assert 'seen inside' == ''", "seen inside"),
        ("import no_such_module", "no_such_module"),
        ("", "ended with 5"),
        ("from needs import need\ndef test_absent(): need('wings', 'none here')", "no test passed"),
    ],
)
def test_a_run_that_proves_nothing_is_a_failure_and_is_shown(tmp_path, text, shown):
    with pytest.raises(AssertionError, match=shown):
        judged(tmp_path, text)
