"""ring.h between threads, under ThreadSanitizer: no access that the atomics do not order."""

import os
import subprocess
from pathlib import Path

import pytest
from explorer_build import HEADERS

SOURCE = Path(__file__).parent / "foreign" / "ring_threads.c"


def build(folder, source):
    built = folder / source.stem
    compiler = os.environ.get("CC", "cc").split()
    # TSan does not model fences of their own, and says so; none of the protocol's is what orders the data.
    options = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-tsan"]
    command = [*compiler, *options, "-fsanitize=thread", "-pthread", f"-I{HEADERS}", source, "-o", built]
    subprocess.run(command, check=True)
    return built


def run(built, *words):
    # Without randomised addresses: older sanitizers do not find their own memory with much of it.
    environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
    command = ["setarch", "-R", built, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, env=environment)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("tsan"), SOURCE)


@pytest.mark.parametrize("kind", ["stream", "messages"])
def test_threads_at_all_ends_of_a_ring_do_not_race(program, kind):
    done = run(program, kind, 20_000)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "2 readers had all of 20000\n"


def test_the_sanitizer_sees_a_ring_that_publishes_too_early(tmp_path):
    """Else the test above would prove nothing: here items are published before they are written."""
    text = SOURCE.read_text()
    write = "        for (uint64_t i = 0; i < n; i++, done++)\n            memcpy(at + 8 * i, &done, 8);\n"
    publish = "        zs_writer_commit(w, n);\n"
    early = text.replace(write + publish, publish + write)
    assert early != text
    changed = tmp_path / "early.c"
    changed.write_text(early)
    done = run(build(tmp_path, changed), "stream", 20_000)
    found = "data race" in done.stderr or "missing, doubled or torn" in done.stderr
    assert done.returncode != 0 and found, done.stderr
