"""What needs several nodes: one test a guest, which runs every file of tests/guest/SHAPE/ inside it."""

import subprocess

import guest
import pytest

FOLDER = guest.TREE / "tests" / "guest"


@pytest.mark.guest
@pytest.mark.timeout(1800)
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


def played(folder, monkeypatch, words):
    """Run a command by a numa-vm that fails with *words* at its first start and works at its second."""
    vm = folder / "numa-vm"
    vm.write_text(f"""#!/bin/sh
echo start >>{folder}/starts
[ $(wc -l <{folder}/starts) = 2 ] && exit 7
echo '{words}' >&2
exit 125
""")
    vm.chmod(0o755)
    monkeypatch.setattr(guest, "NUMA_VM", vm)
    monkeypatch.setattr(guest, "refusal", lambda: None)
    return guest.run("two", ["true"]).returncode


def test_a_kernel_that_trips_while_it_starts_is_started_again(tmp_path, monkeypatch):
    assert played(tmp_path, monkeypatch, "no boot (tcg)") == 7


def test_a_guest_that_dies_under_our_command_is_no_second_try(tmp_path, monkeypatch):
    monkeypatch.setattr("needs.REQUIRED", {"guest"})
    with pytest.raises(pytest.fail.Exception, match="ended before the command did"):
        played(tmp_path, monkeypatch, "the guest ended before the command did")
    assert (tmp_path / "starts").read_text() == "start\n"
