"""zerosys top: plain text where nobody watches, a screen that is left as it was where somebody does."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest
from commands import zerosys

TOP = [sys.executable, "-m", "zerosys", "top", "-p", "2"]


def test_without_a_terminal_it_looks_once_and_prints_text():
    done = zerosys("top")
    assert (done.returncode, done.stderr) == (0, "")
    heading, blank, head, *rows = done.stdout.splitlines()
    assert heading.startswith("zerosys top ") and heading.endswith("MiB, pages since boot") and blank == ""
    assert head.split()[:6] == ["NODE", "TOTAL", "USED", "FREE", "FILES", "ANON"]
    total, used, free = map(float, rows[0].split()[1:4])
    assert total == pytest.approx(used + free, abs=0.2)
    assert "\x1b" not in done.stdout and any(line.split()[:1] == ["PID"] for line in rows)


def test_the_second_look_tells_rates():
    done = zerosys("top", "-n", "2", "-d", "0.05", "-p", "0")
    assert [line.split("MiB, ")[1].split(" ")[0] for line in done.stdout.splitlines() if "MiB, " in line] == [
        "pages",
        "pages/s",
    ]
    assert "PID" not in done.stdout


def test_json_is_a_line_each_time_with_the_largest_first():
    lines = zerosys("top", "-n", "2", "-d", "0.05", "--json", "-p", "3").stdout.splitlines()
    first, second = map(json.loads, lines)
    assert first["seconds"] is None and second["seconds"] >= 0.05
    sizes = [one["bytes"] for one in second["processes"]]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) + second["unread"] <= 3
    counters = second["nodes"][0]["counters"]
    assert all(counters[name] >= first["nodes"][0]["counters"][name] for name in counters)


def test_it_ends_where_nobody_reads():
    command = " ".join([*TOP, "-n", "50", "-d", "0.05"]) + " | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and done.stdout.startswith("zerosys top")


@pytest.mark.parametrize(
    "words", [["-d", "0"], ["-d", "x"], ["-d", "nan"], ["-n", "-1"], ["-p", "x"], ["more"]]
)
def test_wrong_usage_is_told(words):
    done = zerosys("top", *words)
    assert (done.returncode, done.stdout) == (2, "")


class Watched:
    """zerosys top on a terminal of its own."""

    def __init__(self, *command, pass_fds=(), **env):
        self.ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (12, 100))
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.process = subprocess.Popen(
            command or [*TOP, "-d", "30"], stdin=theirs, stdout=theirs, stderr=theirs,
            env={**os.environ, **env}, start_new_session=True, pass_fds=pass_fds,
        )  # fmt: skip

    def until(self, wanted, seconds=60):
        """What it draws, read until *wanted* is in it."""
        seen, deadline = b"", time.monotonic() + seconds
        while wanted not in seen:
            assert select.select([self.ours], [], [], deadline - time.monotonic())[0], seen
            seen += os.read(self.ours, 1 << 16)
        return seen

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.mark.parametrize("key", [b"q", b"Q"])
def test_q_leaves_and_the_terminal_is_as_it_was(key):
    with Watched() as top:
        drawn = top.until(b"PID")
        assert drawn.startswith(b"\x1b[?1049h\x1b[?25l")
        os.write(top.ours, key)
        assert top.until(b"\x1b[?1049l").endswith(b"\x1b[?25h\x1b[?1049l")
        assert top.process.wait(60) == 0
        assert termios.tcgetattr(top.theirs) == top.before


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_the_terminal_as_it_was(number, status):
    with Watched() as top:
        top.until(b"PID")
        top.process.send_signal(number)
        top.until(b"\x1b[?1049l")
        assert top.process.wait(60) == status
        assert termios.tcgetattr(top.theirs) == top.before


# As a shell does: the command in a group of its own, which has the terminal; stopped, it goes on when told.
SHELL = f"""
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if not pid:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, {[*TOP, "-d", "30"]})
_, status = os.waitpid(pid, os.WUNTRACED)
os.write(int(sys.argv[1]), b"stopped" if os.WIFSTOPPED(status) else b"ended")
os.read(int(sys.argv[2]), 1)
os.kill(pid, signal.SIGCONT)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on():
    (told, tell), (go, start) = os.pipe(), os.pipe()
    try:
        with Watched(sys.executable, "-c", SHELL, str(tell), str(go), pass_fds=(tell, go)) as top:
            top.until(b"PID")
            os.write(top.ours, b"\x1a")
            top.until(b"\x1b[?1049l")
            assert os.read(told, 99) == b"stopped"
            assert termios.tcgetattr(top.theirs) == top.before
            os.write(start, b"!")
            drawn = top.until(b"PID", seconds=20)  # at once, and not after the 30 seconds between two looks
            assert drawn.startswith(b"\x1b[?1049h")
            os.write(top.ours, b"q")
            top.until(b"\x1b[?1049l")
            assert top.process.wait(60) == 0
            assert termios.tcgetattr(top.theirs) == top.before
    finally:
        for fd in (told, tell, go, start):
            os.close(fd)


def test_a_closed_standard_input_gives_no_keys_and_is_no_fault():
    with Watched("sh", "-c", 'exec "$@" <&-', "sh", *TOP, "-n", "2", "-d", "0.1") as top:
        top.until(b"\x1b[?1049l")
        assert top.process.wait(60) == 0


def test_another_key_looks_again_and_no_line_is_lost_below_the_screen():
    with Watched() as top:
        top.until(b"PID")
        os.write(top.ours, b" ")
        drawn = top.until(b"\x1b[J")
        assert b"pages/s" in drawn and drawn.count(b"\r\n") <= 11


def test_colour_is_left_out_where_it_is_not_wanted():
    with Watched(NO_COLOR="1") as top:
        drawn = top.until(b"\x1b[J")
        assert not re.search(rb"\x1b\[[0-9;]*m", drawn) and b"NODE" in drawn


def test_without_rich_it_works_all_the_same():
    code = """import sys
sys.modules["rich"] = None
from importlib import util
find = util.find_spec
util.find_spec = lambda name, *rest: None if name == "rich" else find(name, *rest)
from zerosys.cli.top import view
from zerosys.cli.top.sample import Sample
class Screen: colours = True
print(view.text(Sample(1), Screen()))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and "\x1b" not in done.stdout


def test_with_rich_the_same_words_are_shown():
    code = """import sys
from zerosys.cli.top import view
from zerosys.cli.top.sample import Sample
class Screen: colours = sys.argv[1] == "rich"
sample = Sample(3)
print(view.text(sample, Screen()))
Screen.colours = False
print("=====")
print(view.text(sample, Screen()))"""
    done = subprocess.run([sys.executable, "-c", code, "rich"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    coloured, bare = done.stdout.split("=====\n")
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == bare.split()
