"""ring.h in C and in C++, at one end of a ring whose other end is Python's."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from needs import need

import zerosys
from zerosys import MessageRing, StreamRing

SOURCE = Path(__file__).parent / "foreign" / "ring.c"
STRICT = ["-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{zerosys.get_include()}"]
LANGUAGES = {
    "C11": [*os.environ.get("CC", "cc").split(), "-std=c11"],
    "C++17": [*os.environ.get("CXX", "c++").split(), "-std=c++17", "-x", "c++"],
}
COUNT = 20_000
MODULUS = 2**64


@pytest.fixture(scope="module", params=LANGUAGES)
def program(request, tmp_path_factory):
    command = LANGUAGES[request.param]
    compiler = shutil.which(command[0])
    need("c++", None if compiler or request.param == "C11" else f"there is no compiler {command[0]}")
    made = tmp_path_factory.mktemp("ring") / "ring"
    built = subprocess.run([*command, *STRICT, str(SOURCE), "-o", str(made)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return made


def started(program, word, handle):
    fds = handle.filenos()
    return subprocess.Popen(
        [program, word, *map(str, fds), str(COUNT)], pass_fds=fds, stdout=subprocess.PIPE, text=True
    )


def answer(child):
    said, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    return int(said)


def test_items_from_c_to_python(program):
    with StreamRing.create(4096, "u8") as ring, ring.handle() as handle, ring.reader() as r:
        child = started(program, "write-items", handle)
        got = np.zeros(COUNT + 1, "u8")
        assert r.read_into(got, timeout=20) == COUNT
        assert (got[:COUNT] == np.arange(COUNT)).all()
        answer(child)
        assert ring.stat()["closed"]


def test_items_from_python_to_c(program):
    with StreamRing.create(4096, "u8", readers=2) as ring, ring.handle() as handle, ring.writer() as w:
        child = started(program, "read-items", handle)
        want = 0
        for start in range(0, COUNT, 10):
            w.write(np.arange(start, start + 10, dtype="u8"), timeout=20)
        w.close()
        for item in range(COUNT):
            want = (want * 31 + item) % MODULUS
        assert answer(child) == want


def test_messages_from_c_to_python(program):
    with MessageRing.create(4096) as ring, ring.handle() as handle, ring.reader() as r:
        child = started(program, "write-messages", handle)
        for i in range(COUNT):
            assert r.read(timeout=20) == bytes([i % 256]) * (i % 100)
        with pytest.raises(EOFError):
            r.read(timeout=20)
        answer(child)


def test_messages_from_python_to_c(program):
    with MessageRing.create(4096) as ring, ring.handle() as handle, ring.writer() as w:
        child = started(program, "read-messages", handle)
        want = 0
        for i in range(1000):
            message = bytes([i % 251]) * (i % 300)
            w.write(message, timeout=20)
            for byte in message:
                want = (want * 31 + byte) % MODULUS
            want = (want * 31 + len(message)) % MODULUS
        w.close()
        assert answer(child) == want


def test_what_is_no_ring_is_refused(program):
    with MessageRing.create(4096) as ring, ring.handle() as handle:
        with zerosys.SharedRegion.create(8192) as other, other.handle() as empty:
            control, data = handle.filenos()
            blank = empty.fileno()
            for fds, code in (((blank, data), -11), ((control, blank), -71), ((data, data), -11)):
                command = [program, "read-items", *map(str, fds), "0"]
                child = subprocess.run(command, pass_fds=fds, capture_output=True, text=True)
                assert int(child.stdout) == code, fds
