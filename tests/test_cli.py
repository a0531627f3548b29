"""The command: what it lists, how it refuses, and what its exit status means."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from commands import installed
from commands import zerosys as zerosys_command

import zerosys
from zerosys.cli import COMMANDS, TOOLS

TREE = Path(__file__).resolve().parent.parent


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


@pytest.mark.parametrize(
    ("word", "hint"), [("dmo", "did you mean demo?"), ("xyzzy", "is no command; there are: ")]
)
def test_an_unknown_command_is_wrong_usage_and_gets_a_hint(word, hint):
    done = zerosys_command(word)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("pump --raet 4MiB in out", "--raet; did you mean --rate?"),
        ("pump in out --raet=4MiB", "--raet=4MiB; did you mean --rate?"),
        ("hardware --jsn", "--jsn; did you mean --json?"),
        ("region create frames 4096 --kepe", "--kepe; did you mean --keep?"),
        ("ring sttat frames", "'play', 'rm'); did you mean stat?"),
        ("hugepages resrve 3", "'give-back'); did you mean reserve?"),
        ("completion bsh", "did you mean bash?"),
        ("bench memry", "'memry' is no subject; did you mean memory?"),
        ("--versoin", "--versoin; did you mean --version?"),
        ("region", "required: COMMAND; there are: ls, create, show, rm, gc"),
        ("run --gpus 0 -- true", "did you mean '--gpu'?"),
    ],
)
def test_a_misspelt_or_missing_word_gets_the_one_that_was_meant(line, hint):
    done = zerosys_command(*line.split())
    assert (done.returncode, done.stdout) == (125 if line.startswith("run") else 2, "")
    # CPython 3.12 and later list choices without quotation marks.
    assert hint.replace("'", "") in done.stderr.replace("'", "")


@pytest.mark.parametrize("line", ["hardware --xyzzy", "ring ls -x", "completion fish"])
def test_a_word_that_is_near_to_none_gets_no_hint(line):
    done = zerosys_command(*line.split())
    assert (done.returncode, done.stdout) == (2, "") and "error: " in done.stderr
    assert "did you mean" not in done.stderr


def test_what_is_wrong_in_a_part_is_told_with_the_usage_of_that_part():
    done = zerosys_command("region", "ls", "--jsno")
    assert done.returncode == 2
    assert done.stderr.startswith("usage: zerosys region ls ") and "zerosys region ls: error: " in done.stderr


def test_listing_commands_loads_neither_numpy_nor_psutil_nor_libnuma():
    code = "import sys, zerosys.cli as c; c.main([]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "psutil", "zerosys._numa", "multiprocessing"}


def test_a_command_that_is_named_first_is_run_without_argparse():
    code = "import sys, zerosys.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert not set(done.stdout.split()) & {"argparse", "difflib", "dataclasses", "json", "pathlib"}


@pytest.mark.parametrize("name", ["lister", "zerosys-lister", "/elsewhere/lister"])
def test_a_tools_name_makes_the_command_that_tool(name):
    code = f"""import sys, zerosys.cli as cli
cli.TOOLS["lister"] = "zerosys.cli.region"
sys.argv[:] = [{name!r}, "--help"]
cli.main()"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("usage: lister ")


def test_arguments_that_are_given_are_no_tools():
    code = "import sys, zerosys.cli as cli; cli.TOOLS['x'] = 'none'; sys.argv[0] = 'x'; cli.main([])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_tool_is_an_entry_point(tmp_path):
    scripts = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == dict.fromkeys(["zerosys", *(f"zerosys-{tool}" for tool in TOOLS)], "zerosys.cli:main")


def test_the_installed_command_runs_from_its_own_name_and_from_a_links(tmp_path):
    folder = installed(tmp_path / "bin", "other")
    for name in ("zerosys", "other"):
        done = subprocess.run([folder / name, "--version"], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, f"zerosys {zerosys.__version__}\n")


# Standard output as a command has it in a script: buffered, so that it is written at the end.
BUFFERED = {**os.environ, "PYTHONUNBUFFERED": ""}


@pytest.mark.parametrize("command", ["", "--help", "--version", "hardware", "run --help", "stat --help"])
def test_nobody_reading_the_output_is_no_complaint(command):
    line = f"{sys.executable} -m zerosys {command} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, env=BUFFERED)
    assert (done.returncode, done.stderr) in ((141, ""), (0, ""))  # it may have been written before


@pytest.mark.parametrize(
    "command, status",
    [("", 1), ("--help", 1), ("--version", 1), ("hardware", 1), ("hugepages --help", 1), ("run --plan", 125)],
)
def test_an_output_that_cannot_be_written_is_said_in_a_line(command, status):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "zerosys", *command.split()],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=BUFFERED,
        )  # fmt: skip
    prog = " ".join(["zerosys", *(word for word in command.split()[:1] if word[0] != "-")])
    assert (done.returncode, done.stderr) == (status, f"{prog}: No space left on device\n")


@pytest.mark.parametrize(
    "command",
    [["run", "--"], ["run", "-m"], ["run", "--nic"], ["hardware", "--root"], ["migrate", "self", "0"]],
)
def test_a_name_in_a_message_cannot_steer_the_terminal(command):
    done = zerosys_command(*command, "/\x1b[2J\nx", *(["true"] if command[0] == "run" else []))
    assert done.returncode and "\x1b" not in done.stderr
    assert "\\x1b[2J\\nx" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_name_that_the_terminal_has_no_letters_for_is_shown_all_the_same():
    for encoding in ("ascii:strict", "utf-8:strict", "ascii:surrogateescape"):
        done = subprocess.run(
            [sys.executable, "-m", "zerosys", "run", "--plan", "--", b"caf\xc3\xa9\xff\n"],
            capture_output=True, timeout=60, env={**os.environ, "PYTHONIOENCODING": encoding},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        shown = b"caf\xc3\xa9" if encoding.startswith("utf-8") else b"caf\\xe9"
        assert done.stdout.startswith(b"command  '" + shown + b"\\xff\\n'\n")


def _with_closed(descriptors: str, *arguments: str) -> subprocess.CompletedProcess:
    command = ["sh", "-c", f'exec "$@" {descriptors}', "sh", sys.executable, "-m", "zerosys", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("line", ["--help", "--version", "", "pump --help"])
def test_a_help_without_a_standard_output_is_no_success(line):
    name = f"zerosys {line.split()[0]}" if line[:1].isalpha() else "zerosys"
    done = _with_closed(">&-", *line.split())
    assert (done.returncode, done.stderr) == (1, f"{name}: standard output is closed\n")


@pytest.mark.parametrize(
    "command", ["hardware", "show", "ring ls", "hugepages", "top -n 1", "completion bash"]
)
def test_a_closed_standard_output_is_said_in_a_line(command):
    done = _with_closed(">&-", *command.split())
    name = command.split()[0]
    assert (done.returncode, done.stderr) == (1, f"zerosys {name}: standard output is closed\n")


def test_what_writes_nothing_needs_no_standard_output(tmp_path):
    (tmp_path / "in").write_bytes(b"bytes")
    done = _with_closed(">&-", "pump", str(tmp_path / "in"), str(tmp_path / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_bytes() == b"bytes"


def test_what_is_for_a_closed_standard_error_is_not_put_among_the_output(tmp_path):
    done = _with_closed("2>&-", "pump", str(tmp_path / "missing"))
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize(
    "line",
    [
        "no-such-command",
        "--xyzzy",
        *(f"{name} --xyzzy" for name in sorted(COMMANDS)),
        "ring ls --x",
        "region",
    ],
)
def test_wrong_usage_puts_nothing_among_the_output_though_standard_error_is_closed(line):
    done = _with_closed("2>&-", *line.split())
    assert (done.returncode, done.stdout, done.stderr) == (125 if line.startswith("run") else 2, "", "")


def test_a_remedy_is_an_option_of_the_command_or_none():
    done = zerosys_command("region", "create", f"much-{os.getpid()}", "512TiB")
    assert done.returncode == 1
    assert "asked, but" in done.stderr and "end something that holds memory" in done.stderr
    assert "force" not in done.stderr


def test_a_limit_on_locked_memory_names_the_option():
    command = [sys.executable, "-m", "zerosys", "region", "create", f"locked-{os.getpid()}", "1MiB", "--lock"]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set", "-ipc_lock", *command]
    limited = ["sh", "-c", 'ulimit -l 64; exec "$@"', "sh", *command]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert "or leave out --lock" in done.stderr and "lock='try'" not in done.stderr
