"""What a shell offers when somebody presses the tabulator, asked of the shells themselves."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from functools import cache

import pytest
from commands import zerosys
from needs import need

from zerosys.cli import COMMANDS, TOOLS, tree
from zerosys.machine import topology

NODES = sorted(topology().nodes)


@cache
def script(shell):
    done = zerosys("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# --- the tree of the command ------------------------------------------------------------------------


def test_the_tree_has_every_command_and_tool_with_its_options():
    top = tree.whole()
    assert [part.words[-1] for part in top.parts] == sorted(COMMANDS)
    assert [tool.name for tool in tree.tools()] == [f"zerosys-{tool}" for tool in sorted(TOOLS)]
    for command in [*top.walk(), *tree.tools()]:
        assert command.description, command.name
        for option in command.options:
            assert "%(" not in option.help, (command.name, option.names)


# --- bash ---------------------------------------------------------------------------------------------


def bash(*words):
    """What bash offers for the last of *words*."""
    need("bash", None if shutil.which("bash") else "bash is not installed")
    code = (
        f'{script("bash")}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() {{ :; }}\n'
        '_zerosys; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", *words], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("zerosys ru", {"run"}),
        ("zerosys ", set(COMMANDS)),
        ("zerosys --v", {"--version"}),
        ("zerosys region ", {"ls", "create", "show", "rm", "gc"}),
        ("zerosys region ls --j", {"--json"}),
        ("zerosys run --memb", {"--membind"}),
        ("zerosys run -m 0 --best", {"--best-effort"}),
        ("zerosys hardware --color ", {"auto", "always", "never"}),
        ("zerosys hardware --color = n", {"never"}),
        ("zerosys region create --pages t", {"thp"}),
        ("zerosys completion ", {"bash", "zsh"}),
        ("/usr/bin/zerosys-numactl --interl", {"--interleave"}),
        ("zerosys run --membind ", {"all", *map(str, NODES)}),
        ("zerosys run --membind = ", {"all", *map(str, NODES)}),
        ("zerosys run -m 0,", {"0,all", *(f"0,{node}" for node in NODES)}),
    ],
)
def test_bash_offers(line, offered):
    assert bash(*line.split(" ")) == offered


def test_bash_offers_commands_and_then_files(tmp_path):
    (tmp_path / "data.bin").touch()
    assert "true" in bash("zerosys", "run", "-m", "0", "tr") and "true" in bash("zerosys", "run", "--", "tr")
    assert bash("zerosys", "run", "-m", "0", "cat", f"{tmp_path}/da") == {f"{tmp_path}/data.bin"}
    assert bash("zerosys-numactl", "--file", f"{tmp_path}/da") == {f"{tmp_path}/data.bin"}


# --- zsh ----------------------------------------------------------------------------------------------


class Zsh:
    """An interactive zsh with the script, on a terminal of its own."""

    def __init__(self, folder):
        need("zsh", None if shutil.which("zsh") else "zsh is not installed")
        (folder / "script").write_text(script("zsh"))
        self.main, end = pty.openpty()
        environment = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "TERM": "dumb",
            "ZDOTDIR": str(folder),
        }
        self.shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=end, stdout=end, stderr=end, env=environment)
        os.close(end)
        self.send("unsetopt beep zle_bracketed_paste 2>/dev/null; PS1='> '; autoload -Uz compinit\n")
        self.send(f"compinit -u -d {folder}/dump && . {folder}/script && echo rea''dy\n")
        self.until("ready")

    def send(self, text):
        os.write(self.main, text.encode())

    def until(self, words, seconds=30):
        """What is said until *words* came."""
        said, deadline = "", time.monotonic() + seconds
        while words not in said:
            ready, _, _ = select.select([self.main], [], [], deadline - time.monotonic())
            assert ready, f"no {words!r} in {said!r}"
            said += re.sub(r"\x1b\[[\d;?]*[a-zA-Z]|\r", "", os.read(self.main, 1 << 16).decode())
        return said

    def close(self):
        self.shell.kill()
        self.shell.wait()
        os.close(self.main)


@pytest.fixture
def zsh(tmp_path):
    shell = Zsh(tmp_path)
    yield shell
    shell.close()


def test_zsh_offers_commands_options_and_values(zsh):
    for typed, completed in (
        ("zerosys hardw\t", "zerosys hardware "),
        ("zerosys region cre\t", "zerosys region create "),
        ("zerosys hardware --color=nev\t", "never"),
        ("zerosys run --memb\t", "--membind="),
        ("zerosys region create x 1 --pages=th\t", "thp"),
        ("zerosys-numactl --phys\t", "--physcpubind="),
        ("zerosys completion b\t", "bash"),
    ):
        zsh.send(typed)
        zsh.until(completed)
        zsh.send("\x15")  # the line is thrown away


def test_zsh_lists_commands_with_what_they_do(zsh):
    zsh.send("zerosys \t")
    assert "measure this machine" in zsh.until("memory on chosen nodes")
