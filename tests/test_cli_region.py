"""zerosys region: what it prints, what it removes, and what its exit status means."""

import errno
import json
import os
import pty
import signal
import stat
import subprocess
import sys

import pytest
from private_shm import command, run
from seccomp import Refuse, refused

from zerosys import cli, logout, segments
from zerosys.cli.region import parser, seeing
from zerosys.cli.table import plain, table

ZEROSYS = [sys.executable, "-m", "zerosys", "region"]


def script(*lines):
    """Run shell *lines* in a /dev/shm of their own, where `z` is zerosys region."""
    return run(["bash", "-c", "\n".join([f'z() {{ {" ".join(ZEROSYS)} "$@"; }}', *lines])])


def test_create_ls_show_and_rm_make_one_life():
    done = script(
        "z create a 3MiB --node 0 --keep --mode 640",
        "z ls",
        "z show a",
        "z show a --json",
        "z rm a && ls -A /dev/shm",
    )
    assert (done.returncode, done.stderr) == (0, "")
    made, head, row, *rest = done.stdout.splitlines()
    assert made == "a: 3145728 bytes, tmpfs, base pages of 4 KiB, not sealed, pages by node {0: 768}"
    assert head.split() == ["NAME", "SIZE", "PAGES", "NODES", "MODE", "OWNER", "STATE", "ATTACHED"]
    assert row.split()[:8] == ["a", "3", "MiB", "768", "x", "4", "KiB", "0:768"]
    assert "rw-r-----" in row and "kept" in row
    text = "\n".join(rest)
    assert "size:       3 MiB (3145728 bytes)" in text and "state:      kept" in text
    told = json.loads(text[text.index("{") :])
    assert (told["size"], told["nodes"], told["mode"]) == (3 << 20, {"0": 768}, "2640")


def test_without_names_there_is_a_head_and_an_empty_list():
    done = script("z ls", "z ls --json", "z gc")
    assert (done.returncode, done.stderr) == (0, "")
    head, *rest = done.stdout.splitlines()
    assert head.startswith("NAME") and rest == ["[]", "no orphans"]


def test_gc_removes_orphans_alone_and_only_when_told():
    done = script(
        "z create orphan 4096 >&2; z create kept 4096 --keep >&2; head -c 5000 /dev/zero >/dev/shm/foreign",
        f"exec {{held}}< <(exec {' '.join(ZEROSYS)} create used 4096 --hold)",
        "holder=$!; read -u $held line",
        "z gc </dev/null >&2; echo $?; ls -m /dev/shm",
        "z gc --dry-run >&2; echo $?; ls -m /dev/shm",
        "z gc --json </dev/null >/dev/null; echo $?; ls -m /dev/shm",
        "z gc --json --yes | grep -A 2 removed; ls -m /dev/shm",
        "kill $holder; z gc --yes >&2; echo $?",
    )
    everything = "foreign, kept, orphan, used"
    assert done.stdout.splitlines() == [
        *("1", everything),
        *("0", everything),
        *("1", everything),
        *('  "removed": [', '    "/dev/shm/orphan"', "  ]", "foreign, kept, used"),
        "0",
    ]
    assert "nothing was removed: pass --yes" in done.stderr


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", []), (b"yes\n", []), (b"\n", ["o"]), (b"n\n", ["o"])])
def test_on_a_terminal_gc_asks(answer, left):
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    words = ["sh", "-c", f"{' '.join(ZEROSYS)} create o 4096 >&2; {' '.join(ZEROSYS)} gc >&2; ls /dev/shm"]
    done = run(words, stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stdout.split()) == (0, left)
    assert ("removed 1" in done.stderr) == (not left)


def test_rm_goes_on_after_a_name_that_is_not_there():
    done = script("z create a 1; z create b 1; z rm a nope /b", "echo $?", "ls /dev/shm")
    assert done.stdout.splitlines()[2:] == ["1"]
    assert "zerosys region: there is no shared memory of this name; zerosys region ls" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["create", "a", "0"], 2, "size must be 1 to"),
        (["create", "a", "much"], 2, "size must be bytes, or text"),
        (["create", "a", "1", "--mode", "999"], 2, "no permissions in octal"),
        (["create", "a", "1", "--mode", "1777"], 2, "no permissions in octal"),
        (["create", "a", "1", "--pages", "3M"], 2, "invalid choice"),
        (["create", "a/b", "1"], 1, "name must be"),
        (["create", "a", "1", "--node", "900"], 1, "node 900"),
        (["create", "a", "1", "--node", "x"], 1, "x"),
        (["create", "a", "1GiB"], 1, "/dev/shm"),
        (["show", "nope"], 1, "zerosys region ls lists what there is"),
        (["rm", "a/b"], 1, "name must be"),
        (["rm"], 2, "required"),
        ([], 2, "required"),
        (["xyzzy"], 2, "invalid choice"),
    ],
)
def test_a_failure_is_a_sentence_on_stderr_and_a_status(words, status, sentence):
    done = run([*ZEROSYS, *words], size="1m")
    assert (done.returncode, done.stdout) == (status, "")
    assert sentence in done.stderr and "Traceback" not in done.stderr and "[Errno" not in done.stderr


@pytest.mark.parametrize("part", ["ls", "create", "show", "rm", "gc"])
def test_each_part_documents_itself_and_the_exit_status(part, capsys):
    with pytest.raises(SystemExit) as end:
        parser("zerosys region").parse_args([part, "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "exit status:" in said and "--json" in said


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("word", ["--hold", "--lock"])
def test_holding_lasts_until_it_is_ended(word, end):
    with subprocess.Popen(
        command([*ZEROSYS, "create", "held", "64KiB", word, "--json"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as held:
        lines = []
        while not lines or lines[-1] != "}\n":
            lines.append(held.stdout.readline())
        told = json.loads("".join(lines))
        assert told["locked"] == (word == "--lock")
        with open(f"/proc/{held.pid}/status") as status:
            locked = [int(line.split()[1]) for line in status if line.startswith("VmLck")]
        assert (locked[0] >= 64) == (word == "--lock")
        assert stat.S_ISREG(os.stat(f"/proc/{held.pid}/root/dev/shm/held").st_mode)
        held.send_signal(end)
        assert held.wait(60) == 0


@pytest.mark.parametrize("call", ["move_pages", "mincore", "madvise", "mmap"])
def test_a_kernel_that_refuses_to_tell_is_no_failure(call):
    # mmap with its fourth argument MAP_SHARED | MAP_NORESERVE alone: the looker's own.
    rule = Refuse(call, errno.EPERM, arg=3, equals=0x4001) if call == "mmap" else Refuse(call, errno.EPERM)
    made = "head -c 8192 /dev/zero >/dev/shm/a"
    listed = f"{' '.join(ZEROSYS)} ls --json"
    done = refused([rule], command(["sh", "-c", f"{made}; {listed}"]))
    assert (done.returncode, done.stderr) == (0, "")
    (one,) = json.loads(done.stdout)
    assert (one["pages"], one["nodes"], one["unplaced"]) == (2, {}, 2)


def test_a_region_is_made_where_nobody_tells_of_nodes():
    done = refused([Refuse("move_pages", errno.EPERM)], command([*ZEROSYS, "create", "a", "8KiB", "--keep"]))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("pages by node {}\n")


def test_a_stranger_s_name_cannot_steer_the_terminal():
    done = script("printf x >/dev/shm/$'evil\\e[2J\\xff\\n'", "z ls", "z ls --json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout and "evil\\x1b[2J\\xff\\n" in done.stdout
    done = script("printf x >/dev/shm/größe", "LC_ALL=C PYTHONIOENCODING=ascii z ls")
    assert done.returncode == 0 and "gr\\xf6\\xdfe" in done.stdout


def test_logout_s_removal_is_told_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(logout, "takes_names", lambda: "names go")
    mine = segments.Segment("a", "/dev/shm/a", 1, 4096, {0: 1}, 0, os.geteuid(), 0o600, "orphan", (), 0, 0.0)
    monkeypatch.setattr(seeing, "listing", lambda: [mine])
    assert cli.main(["region", "ls"]) == 0
    assert capsys.readouterr().err == "zerosys region: names go\n"


def test_columns_stand_under_their_heads():
    assert table(("A", "B"), [("xx", "1"), ("y", "22")], right="B") == "A    B\nxx   1\ny   22"
    assert plain("a\tb\x7f") == "a\\tb\\x7f"
