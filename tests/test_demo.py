"""zerosys demo: what it prints is what was counted, on any file, whatever the machine refuses."""

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from needs import need
from seccomp import POLICY_CALLS, Refuse, refused

from zerosys.cli.demo import report, stream
from zerosys.cli.demo.crew import Crew, CrewError

DEMO = [sys.executable, "-m", "zerosys", "demo"]
DATA = os.environ.get("ZEROSYS_DATA")
PAGE = os.sysconf("SC_PAGESIZE")


def demo(*arguments):
    return subprocess.run([*DEMO, *arguments], capture_output=True, text=True, timeout=100)


def seen(*arguments):
    done = demo("--json", "--rounds", "1", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def verdicts(found):
    return {made["promise"]: made["verdict"] for made in found["promises"]}


def test_a_generated_stream_keeps_every_promise():
    found = seen("--size", "3000001", "--pages", "base")
    assert set(verdicts(found).values()) == {"held"} and len(found["promises"]) == 8
    assert found["ok"] and found["file"]["name"] is None
    ours, theirs = found["ways"]["zerosys"], found["ways"]["ordinary"]
    assert (ours["moved"], ours["received"], ours["copied"]) == (3000001, 3000001, 0)
    assert (theirs["moved"], theirs["received"], theirs["copied"]) == (0, 0, 3 * 3000001)
    assert found["reader"]["sha256"] == found["ordinary_sha256"] == found["file"]["sha256"]
    assert sum(found["region"]["proof"]["pages_by_node"].values()) == -(-3000001 // PAGE)
    assert ours["pipe_size"] >= PAGE
    assert abs(found["reader"]["iq"]["peak"] - stream.STRONGEST) < 1 / stream.FFT


@pytest.mark.parametrize("size", [0, 1, 7, PAGE + 1, 1_000_003])
def test_a_file_of_any_size_arrives_whole(size, tmp_path):
    data = random.Random(size).randbytes(size)
    (tmp_path / "file").write_bytes(data)
    found = seen(str(tmp_path / "file"))
    assert found["file"]["bytes"] == size
    assert found["reader"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert "BROKEN" not in verdicts(found).values()


def test_a_real_recording_arrives_as_recorded():
    need("data", None if DATA else "ZEROSYS_DATA names no folder of recordings")
    found = seen(str(Path(DATA, "iq/modes1.bin")))
    assert found["reader"]["sha256"].startswith("3a33e16025da8669")
    assert set(verdicts(found).values()) == {"held"}


def test_the_report_for_people_has_the_table_and_the_promises():
    done = demo("--size", "1MiB", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    for words in ("GB/s", "s/GiB sender", "moved", "received", "copied", "by node", "size got", "sha256"):
        assert words in done.stdout
    assert done.stdout.count("     held  ") == 8


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_where_policy_calls_are_refused_it_goes_on_unplaced_and_says_so(number):
    rules = [Refuse(call, number) for call in POLICY_CALLS]
    done = refused(rules, [*DEMO, "--size", "1MiB", "--rounds", "1", "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert verdicts(found)["pages lie where asked"] == "not asked"
    assert "unplaced" in str(found["promises"]) and os.strerror(number) in found["region"]["refusal"]
    assert found["ways"]["zerosys"]["copied"] == 0


def test_where_splice_is_refused_the_copies_are_counted_and_the_promise_is_broken():
    done = refused([Refuse("splice", errno.ENOSYS)], [*DEMO, "--size", "1MiB", "--rounds", "1", "--json"])
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert not found["ok"]
    assert verdicts(found)["no byte went through a buffer in user memory"] == "BROKEN"
    assert found["ways"]["zerosys"]["copied"] == 1 << 20
    assert found["reader"]["sha256"] == found["file"]["sha256"]


@pytest.mark.parametrize(("arguments", "status", "words"), [
    (["/nonexistent"], 1, "No such file"),
    (["/dev/zero"], 1, "no regular file"),
    (["/"], 1, "no regular file"),
    (["--node", "1000"], 1, "node 1000"),
    (["--node", "x"], 2, "--node"),
    (["--size", "-1"], 2, "--size"),
    (["--size", "1.5"], 2, "--size"),
    (["--rounds", "0"], 2, "--rounds"),
    (["--timeout", "0"], 2, "--timeout"),
    (["--timeout", "nan"], 2, "--timeout"),
    (["--pages", "4K"], 2, "--pages"),
])  # fmt: skip
def test_bad_input_is_a_sentence_and_a_status(arguments, status, words):
    done = demo(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr and "Traceback" not in done.stderr


def test_ctrl_c_ends_it_and_its_processes():
    running = subprocess.Popen(
        [*DEMO, "--rounds", "1000", "--size", "1MiB"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert "moving" in running.stderr.readline()
    os.killpg(running.pid, signal.SIGINT)
    # Every process of the demo holds stderr: its end means that all of them are gone.
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "zerosys demo: interrupted\n")


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("victim", [-3, -2, -1])
def test_a_process_that_is_killed_ends_it_with_a_sentence(victim):
    """The processes are started in this order: sender, receiver, reader."""
    running = subprocess.Popen(
        [*DEMO, "--rounds", "1000", "--size", "1MiB"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(started := children(running.pid)) < 4:  # with multiprocessing's own tracker
        assert running.poll() is None
    os.kill(started[victim], signal.SIGKILL)
    out, err = running.communicate(timeout=60)
    name = ("sender", "receiver", "reader")[victim]
    assert (running.returncode, out) == (1, "")
    assert err.splitlines()[1:] == [f"zerosys demo: the {name} died (signal 9)"]


class Worker:
    """A role for a Crew that can die, fail, hang and answer."""

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def fail(self):
        raise OSError(errno.EIO, "the disk is on fire")

    def blunder(self):
        raise KeyError("x")

    def hang(self):
        signal.pause()

    def answer(self):
        return 42


def crew(timeout=30.0):
    return Crew(dict.fromkeys(("one", "two"), (Worker, ())), timeout)


def test_a_process_that_dies_ends_the_wait_for_all_of_them():
    with crew() as both, pytest.raises(CrewError, match=r"the one died \(signal 9\)"):
        both.ask(one=("die", {}), two=("hang", {}))


@pytest.mark.parametrize(("call", "words"), [
    ("fail", r"the two failed: .*disk is on fire"),
    ("blunder", r"the two failed: KeyError: 'x'.*test_demo"),
    ("no_such_call", r"the two failed: AttributeError"),
])  # fmt: skip
def test_a_process_that_fails_says_why(call, words):
    with crew() as both, pytest.raises(CrewError, match=words):
        both.ask(one=("hang", {}), two=(call, {}))


def test_a_process_that_hangs_is_given_up_and_ended():
    with crew(timeout=0.2) as both, pytest.raises(CrewError, match=r"the two did nothing for 0.2 s"):
        both.ask(one=("answer", {}), two=("hang", {}))


def test_everybodys_answer_comes_back():
    with crew() as both:
        assert both.ask(one=("answer", {}), two=("answer", {})) == {"one": 42, "two": 42}


@pytest.mark.parametrize("cuts", [[100], [1, 99], [7, 8, 9, 76], [3] * 33 + [1], [0, 50, 0, 50]])
def test_the_checksum_does_not_depend_on_how_the_stream_is_cut(cuts):
    data = random.Random(9).randbytes(100)
    summed, at = stream.Checksum(), 0
    for cut in cuts:
        summed.add(data[at : at + cut])
        at += cut
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, 100, 8)]
    assert (summed.bytes, summed.value) == (100, sum(words) % 2**64)


def test_the_generated_stream_is_the_same_each_time_and_has_no_name():
    with stream.make(3_000_001) as first, stream.make(3_000_001) as second:
        data = first.read()
        assert data == second.read() and len(data) == 3_000_001
        assert os.fstat(first.fileno()).st_nlink == 0
    assert data[: 1 << 20] != data[1 << 20 : 2 << 20]


def test_a_promise_is_judged_by_what_was_counted():
    found = seen("--size", "100000")
    for spoil in (
        lambda: found["ways"]["zerosys"].update(copied=1),
        lambda: found["ways"]["zerosys"]["checksums"].append(0),
        lambda: found["reader"].update(sha256="0"),
        lambda: found["region"]["proof"].update(verified=False),
        lambda: found["reader"].update(file=[0, 0]),
        lambda: found["reader"].update(shrink_refused=False),
        lambda: found["descriptors"]["after"].update(reader=0),
        lambda: found["reader"]["iq"].update(peak=0.3),
    ):
        before = sum(made["verdict"] == "BROKEN" for made in report.judge(found))
        spoil()
        assert sum(made["verdict"] == "BROKEN" for made in report.judge(found)) == before + 1
