"""What --json prints is what its schema in docs/schemas says."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

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


@pytest.mark.parametrize("name", COMMANDS)
def test_the_output_is_as_the_schema_says(name):
    done = subprocess.run([sys.executable, "-m", "zerosys", *COMMANDS[name]], capture_output=True, text=True)
    assert done.stderr == ""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.validate(json.loads(done.stdout), schema, jsonschema.Draft202012Validator)
