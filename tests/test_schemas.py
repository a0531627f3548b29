"""What --json prints is what its schema in docs/schemas says."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import zerosys as zs

SCHEMAS = Path(__file__).resolve().parent.parent / "docs/schemas"
# Each schema, and a command whose output it describes.
COMMANDS = {
    "bench": ["bench", "setup", "--rounds", "1", "--json"],
    "doctor": ["doctor", "--json"],
    "hardware": ["hardware", "--json"],
    "hugepages": ["hugepages", "--json"],
    "migrate": ["migrate", "self", "0", "0", "--json"],
    "pump": ["pump", "/dev/zero", "/dev/null", "--count", "1MiB", "--json"],
    "run-plan": ["run", "--plan", "--json", "-N", "all", "-m", "+0", "--", "true", "x"],
    "show": ["show", "--json"],
    "stat": ["stat", "self", "--json"],
    "top": ["top", "-n", "1", "--json"],
}


def test_each_schema_is_one():
    for file in SCHEMAS.glob("*.json"):
        jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text()))


def zerosys(*words):
    """What a command of zerosys prints, which goes well and without a word on stderr."""
    done = subprocess.run([sys.executable, "-m", "zerosys", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def conforms(text, name, part=None):
    """Hold JSON against a schema, or against one of its parts; and return it."""
    schema, told = json.loads((SCHEMAS / f"{name}.json").read_text()), json.loads(text)
    jsonschema.validate(told, schema, jsonschema.Draft202012Validator)
    if part:
        only = {"$ref": f"#/$defs/{part}", "$defs": schema["$defs"]}
        jsonschema.validate(told, only, jsonschema.Draft202012Validator)
    return told


@pytest.mark.parametrize("name", COMMANDS)
def test_the_output_is_as_the_schema_says(name):
    done = subprocess.run([sys.executable, "-m", "zerosys", *COMMANDS[name]], capture_output=True, text=True)
    assert done.stderr == ""
    conforms(done.stdout, name)


def test_each_mapping_of_a_process_is_as_the_schema_says():
    for line in zerosys("stat", "self", "--each", "--json").splitlines():
        conforms(line, "stat-each")


def test_what_is_told_of_regions_is_as_the_schema_says():
    name = f"zerosys-test-schemas-{os.getpid()}"
    try:
        conforms(zerosys("region", "create", name, "64KiB", "--json"), "region", "created")
        assert name in [one["name"] for one in conforms(zerosys("region", "ls", "--json"), "region", "list")]
        with zs.SharedRegion.attach(name):
            held = conforms(zerosys("region", "show", name, "--json"), "region", "segment")
            assert os.getpid() in [process["pid"] for process in held["attached"]]
        left = conforms(zerosys("region", "gc", "--dry-run", "--json"), "region", "collected")
        assert name in [one["name"] for one in left["orphans"]] and not left["removed"]
    finally:
        conforms(zerosys("region", "rm", name, "--json"), "region", "removed")


@pytest.mark.parametrize("kind", ["stream", "messages"])
def test_what_is_told_of_rings_is_as_the_schema_says(kind):
    name = f"zerosys-test-schemas-{os.getpid()}"
    made = {
        "stream": lambda: zs.StreamRing.create("64KiB", "c8", name=name, readers=2),
        "messages": lambda: zs.MessageRing.create("64KiB", name=name, readers=2),
    }
    with made[kind]() as ring:
        try:
            conforms(zerosys("ring", "stat", name, "--json"), "ring", "ring")
            with ring.writer() as writer, ring.reader("oldest"):
                writer.write(bytes(80))
                told = [
                    conforms(line, "ring", "ring") for line in zerosys("ring", "ls", "--json").splitlines()
                ]
                assert [one["kind"] for one in told if one["name"] == name] == [kind]
            lines = zerosys("ring", "stat", name, "--watch", "0.1", "--json").splitlines()
            assert [conforms(line, "ring", "ring")["closed"] for line in lines] == [True]
        finally:
            ring.unlink()


def test_what_is_told_of_recordings_is_as_the_schema_says(tmp_path):
    name = f"zerosys-test-schemas-{os.getpid()}"
    (tmp_path / "a.ci16").write_bytes(bytes(4000))
    command = [sys.executable, "-m", "zerosys", "ring", "play", tmp_path / "a.ci16", name, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as play:
        assert play.stderr.readline().endswith("waiting for readers\n")
        copy = str(tmp_path / "b.ci16")
        assert conforms(zerosys("ring", "record", name, copy, "--oldest", "--json"), "ring", "recorded")[
            "items"
        ]
        assert conforms(play.stdout.read(), "ring", "played")["items"] == 1000


@pytest.mark.parametrize("answers", [True, False])
def test_what_is_told_of_a_connection_is_as_the_schema_says(answers, tmp_path):
    near, far = str(tmp_path / "near"), str(tmp_path / "far")
    command = [sys.executable, "-m", "zerosys", "relay", f"unix-listen:{near}", f"unix:{far}", "--json"]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(far)
        server.listen()
        command += [] if answers else ["--timeout", "0.2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as relay:
            assert "listening" in relay.stderr.readline()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(near)
                with server.accept()[0] as joined:
                    client.sendall(b"there")
                    assert joined.recv(10) == b"there"
                    if not answers:
                        told = conforms(relay.stdout.readline(), "relay")
            if answers:
                told = conforms(relay.stdout.readline(), "relay")
            relay.terminate()
    assert (told["error"] is None) == answers
