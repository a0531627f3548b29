"""The command: what it lists, how it refuses, and what its exit status means."""

import subprocess
import sys

import pytest

import zerosys
from zerosys.cli import COMMANDS


def zerosys_command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "zerosys", *arguments], capture_output=True, text=True, timeout=60, **options
    )


def test_alone_it_lists_its_commands():
    done = zerosys_command()
    assert (done.returncode, done.stderr) == (0, "")
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name}" in done.stdout and summary in done.stdout


def test_it_tells_its_version():
    assert zerosys_command("--version").stdout == f"zerosys {zerosys.__version__}\n"


def test_help_documents_the_exit_status():
    for arguments in (["--help"], *([name, "--help"] for name in COMMANDS)):
        done = zerosys_command(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert "exit status:" in done.stdout


@pytest.mark.parametrize(("word", "hint"), [("dmo", "did you mean demo?"), ("xyzzy", "there are: demo")])
def test_an_unknown_command_is_wrong_usage_and_gets_a_hint(word, hint):
    done = zerosys_command(word)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr


def test_listing_commands_loads_neither_numpy_nor_psutil_nor_libnuma():
    code = "import sys, zerosys.cli as c; c.main([]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "psutil", "zerosys._numa", "multiprocessing"}


def test_nobody_reading_the_output_is_no_traceback():
    command = f"{sys.executable} -m zerosys --help; echo $? >&2"
    done = subprocess.run(["bash", "-c", f"({command}) | true"], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
