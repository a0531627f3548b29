"""``zerosys ring``: what there is, what it carries, and recordings through it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from zerosys import MessageRing, StreamRing
from zerosys.ring.samples import SampleFormat

RING = [sys.executable, "-m", "zerosys", "ring"]


def run(*words, **options):
    return subprocess.run([*RING, *map(str, words)], capture_output=True, text=True, timeout=60, **options)


def fine(*words):
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@contextmanager
def named(kind, *words, **options):
    name = f"zerosys-test-cli-ring-{os.getpid()}"
    with kind.create(*words, name=name, **options) as ring:
        try:
            yield ring, name
        finally:
            ring.unlink()


def mine(text, name):
    return [one for one in map(json.loads, text.splitlines()) if one["name"] == name]


def test_ls_tells_what_a_ring_carries_and_who_is_there():
    with named(StreamRing, "64KiB", "c8", readers=3) as (ring, name):
        with ring.writer() as writer, ring.reader("oldest"):
            writer.write(np.zeros(10, "c8"))
            (told,) = mine(fine("ls", "--json"), name)
            assert (told["kind"], told["item_size"], told["items"], told["slots"]) == ("stream", 8, 10, 3)
            assert told["pid"] == os.getpid()
            (line,) = [line for line in fine("ls").splitlines() if name in line]
            assert line.split()[-4:] == [str(os.getpid()), "1/3", "10", "0"]
    assert name not in fine("ls")


def test_who_has_left_is_no_longer_counted():
    with named(StreamRing, "64KiB", "c8", readers=3) as (ring, name):
        (line,) = [line for line in fine("ls").splitlines() if name in line]
        assert line.split()[-4:] == ["none", "0/3", "0", "0"]  # nobody has come yet
        with ring.reader("oldest"):
            pass
        with ring.writer() as writer:
            writer.write(np.zeros(10, "c8"))
        (line,) = [line for line in fine("ls").splitlines() if name in line]
        assert line.split()[-4:] == ["ended", "0/3", "10", "0"]
        writer_row = fine("stat", name).splitlines()[-1].split()
        assert writer_row[:3] == ["writer", "left", "10"]


@pytest.mark.parametrize("words", [("stat",), ("tail",), ("record",)])
def test_a_name_that_no_ring_has_is_told(words, tmp_path):
    done = run(*words, "no-such-ring", *([tmp_path / "out.ci16"] if words == ("record",) else []))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("no ring of this name; zerosys ring ls lists what there is: no-such-ring\n")


def test_ls_goes_on_past_a_ring_that_is_none():
    with named(MessageRing, 4096) as (_, name):
        path = f"/dev/shm/{name}-broken"
        try:
            for end in ("", ".data"):
                with open(path + end, "wb") as file:
                    file.write(b"\1" * 8192)
            done = run("ls")
        finally:
            os.unlink(path)
            os.unlink(path + ".data")
    assert done.returncode == 1
    assert f"{name}-broken: " in done.stderr
    assert name in done.stdout


def test_stat_tells_each_end():
    with named(MessageRing, 4096, on_full="drop") as (ring, name), ring.writer() as writer:
        with ring.reader("oldest"):
            while writer.lost < 2:
                writer.write(bytes(100))
            told = json.loads(fine("stat", "--json", name))
            assert (told["lost"], told["closed"]) == (2, False)
            assert [reader["state"] for reader in told["readers"]] == ["alive"]
            page = fine("stat", name)
    assert "on_full=drop" in page
    assert [line.split()[0] for line in page.splitlines()[3:]] == ["writer", "reader"]


def test_stat_watches_until_the_end_of_the_stream():
    with named(StreamRing, 4096, "u1") as (ring, name):
        with subprocess.Popen(
            [*RING, "stat", "--watch", "0.1", "--json", name], stdout=subprocess.PIPE, text=True
        ) as watch:
            first = json.loads(watch.stdout.readline())
            with ring.writer() as writer:
                writer.write(bytes(100))
            lines = [json.loads(line) for line in watch.stdout]
            assert watch.wait(20) == 0
    assert "items_per_second" not in first
    assert lines[-1]["closed"] and lines[-1]["items"] == 100
    assert sum(line["items_per_second"] for line in lines) > 0


def test_tail_prints_messages_and_takes_no_more_than_asked():
    with named(MessageRing, 4096) as (ring, name), ring.writer() as writer:
        for message in (b"one", b"\xff\x00", b"three", b"four"):
            writer.write(message)
        assert fine("tail", "--oldest", "-n", 3, name) == "one\nff 00\nthree\n"
        with ring.reader("oldest") as reader:
            assert reader.read(1) == b"four"


@pytest.mark.parametrize("on_full", ["block", "overwrite"])
def test_tail_prints_items_until_the_end(on_full):
    with named(StreamRing, 4096, "c8", on_full=on_full) as (ring, name):
        with ring.writer() as writer:
            writer.write(np.array([1 + 2j, -3], "c8"))
        assert fine("tail", "--oldest", "--json", name) == "[1.0, 2.0]\n[-3.0, 0.0]\n"


def test_ctrl_c_ends_a_tail_within_a_second():
    with named(StreamRing, 4096, "u1") as (ring, name), ring.writer():
        with subprocess.Popen([*RING, "tail", name], stderr=subprocess.PIPE, text=True) as tail:
            await_reader(ring)
            begun = time.monotonic()
            tail.send_signal(signal.SIGINT)
            assert tail.wait(20) == 130
            assert time.monotonic() - begun < 5
            assert "interrupted" in tail.stderr.read()


def await_reader(ring):
    deadline = time.monotonic() + 30
    while not any(reader["state"] == "alive" for reader in ring.stat()["readers"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_played_is_recorded_as_sigmf(tmp_path):
    raw = np.random.default_rng(3).bytes(400_000)
    (tmp_path / "a.ci16").write_bytes(raw)
    name = f"zerosys-test-cli-play-{os.getpid()}"
    with subprocess.Popen(
        [*RING, "play", "--json", "--rate", "1e6", tmp_path / "a.ci16", name],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as play:  # fmt: skip
        assert "waiting for readers" in play.stderr.readline()
        copy = tmp_path / "b.sigmf-meta"
        told = json.loads(
            fine("record", "--json", "--oldest", "--rate", "1e6", "--frequency", "1.09e9", name, copy)
        )
        played = json.loads(play.stdout.read())
        assert play.wait(20) == 0
    assert not os.path.exists(f"/dev/shm/{name}")
    assert (played["items"], told["items"], told["lost"]) == (100_000, 100_000, 0)
    assert played["seconds"] > 0.075  # the last block of 20 ms goes when it is due
    assert (tmp_path / "b.sigmf-data").read_bytes() == raw
    about = json.loads(copy.read_text())
    assert about["global"]["core:datatype"] == "ci16_le"
    assert about["global"]["core:sample_rate"] == 1e6
    assert about["captures"][0]["core:frequency"] == 1.09e9
    # and again from the SigMF recording, into a ring that is there
    with named(StreamRing, "1MiB", SampleFormat.parse("ci16").dtype) as (ring, there):
        with ring.reader("oldest") as reader:
            fine("play", "--rate", "max", copy, there)
            room = bytearray(len(raw))
            assert reader.read_into(room) == 100_000 and room == raw


def test_ctrl_c_ends_a_recording_well(tmp_path):
    with named(StreamRing, "64KiB", "c8") as (ring, name), ring.writer() as writer:
        path = tmp_path / "a.sigmf-data"
        with subprocess.Popen([*RING, "record", name, path], stdout=subprocess.PIPE, text=True) as record:
            await_reader(ring)
            writer.write(np.ones(1000, "c8"))
            while path.stat().st_size < 8000:
                time.sleep(0.01)
            record.send_signal(signal.SIGINT)
            assert record.wait(20) == 0
            assert "recorded 1,000 items" in record.stdout.read()
    assert path.with_suffix(".sigmf-meta").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stat", "no-such-ring"], "no-such-ring"),
        (["tail", "no-such-ring"], "no-such-ring"),
        (["play", "/no/such/file.cu8", "x"], "No such file"),
        (["play", __file__, "x"], "does not end in a sample format"),
        (["rm", "no-such-ring"], "no-such-ring"),
    ],
)
def test_what_is_not_there_is_told(words, says):
    done = run(*words)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["play", "a", "b", "--rate", "0"], ["tail", "a", "-n", "0"], []])
def test_wrong_usage_is_2(words):
    assert run(*words).returncode == 2


def test_messages_are_no_recording(tmp_path):
    with named(MessageRing, 4096) as (_, name):
        done = run("record", name, tmp_path / "a")
    assert done.returncode == 1
    assert "carries messages" in done.stderr


def test_rm_removes_both_names():
    name = f"zerosys-test-cli-rm-{os.getpid()}"
    with StreamRing.create(4096, "u1", name=name):
        fine("rm", name)
        assert not os.path.exists(f"/dev/shm/{name}") and not os.path.exists(f"/dev/shm/{name}.data")
