"""execvpe(3): what the next program gets is what it is given, and a failure changes nothing."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from zerosys import _exec


def become(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)


def test_the_program_gets_its_words_and_environment_to_the_byte():
    done = become(
        "from zerosys._exec import execvpe\n"
        "execvpe(b'sh', [b'name', b'-c', b'cat /proc/$$/cmdline /proc/$$/environ', b'\\xff', b''],"
        " [b'PATH=/usr/bin:/bin', b'A=1', b'A=2', b'NOTHING', b'B=\\xfe'])"
    )
    assert done.stdout.startswith(b"name\0-c\0cat /proc/$$/cmdline /proc/$$/environ\0\xff\0\0PATH=")
    assert done.stdout.endswith(b"\0A=1\0A=2\0NOTHING\0B=\xfe\0")


def test_signals_that_python_ignores_are_at_default_and_ignored_again_after_a_failure():
    done = become(
        "import signal\n"
        "from zerosys._exec import execvpe\n"
        "try: execvpe(b'/nonexistent', [b'x'], [])\n"
        "except FileNotFoundError: print(signal.getsignal(signal.SIGPIPE).name, flush=True)\n"
        "print([line for line in open('/proc/self/status') if 'SigIgn' in line][0].split()[1], flush=True)\n"
        "execvpe(b'grep', [b'grep', b'SigIgn', b'/proc/self/status'], [])"
    )
    first, ignored, line = done.stdout.decode().splitlines()
    assert first == "SIG_IGN" and int(ignored, 16) >> signal.SIGPIPE - 1 & 1
    assert not int(line.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


@pytest.mark.parametrize(
    ("file", "code"),
    [(b"/nonexistent", errno.ENOENT), (b"no-such-program", errno.ENOENT), (b"/etc/passwd", errno.EACCES)],
)
def test_a_program_that_cannot_be_run_is_an_error(file, code):
    with pytest.raises(OSError, match="execvpe") as refusal:
        _exec.execvpe(file, [file], [])
    assert refusal.value.errno == code


def test_arguments_that_are_too_long_are_an_error():
    with pytest.raises(OSError) as refusal:
        _exec.execvpe(b"true", [b"true", b"x" * (os.sysconf("SC_ARG_MAX") + 1)], [])
    assert refusal.value.errno == errno.E2BIG


def test_what_c_cannot_take_is_refused_before():
    for file, words, variables in (
        (b"a\0b", [], []),
        (b"true", [b"\0"], []),
        (b"true", [b"true"], [b"A=\0"]),
    ):
        with pytest.raises(ValueError, match="NUL"):
            _exec.execvpe(file, words, variables)
    with pytest.raises(TypeError):
        _exec.execvpe("true", [b"true"], [])
    with pytest.raises(TypeError):
        _exec.execvpe(b"true", ["true"], [])
