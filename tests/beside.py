"""Debian's tool and ours, one beside the other, on a machine of made-up nodes and processes.

    theirs, ours = beside("numastat", [Case(["-m"], machine)])[0]

Both read the same files, laid over /sys/devices/system/node and /proc in a mount namespace, so that
nothing moves between them and their outputs can be compared whole; alongside() runs both on this
machine as it is. Ours runs in a fork of one interpreter, so that hundreds of lines take seconds.
`python beside.py` is what runs inside.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path

NODES = "/sys/devices/system/node"
_INSIDE = f'mount --bind "$0/node" {NODES} && mount --bind "$0/proc" /proc && exec "$@"'


@dataclass(frozen=True)
class Case:
    """A command line, and the files that it finds: {"node/node0/meminfo": text, "proc/7/status": text}."""

    argv: list[str]
    files: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    status: int
    stdout: str
    stderr: str


def beside(tool: str, theirs: str, cases: Sequence[Case]) -> list[tuple[Outcome, Outcome]]:
    """What *theirs*, the path of Debian's *tool*, and ours make of each case."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("node", "proc"):
            Path(folder, name).mkdir()
        done = subprocess.run(
            ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", _INSIDE, folder]
            + [sys.executable, __file__, tool, theirs, folder],
            input=json.dumps([asdict(case) for case in cases]),
            capture_output=True, text=True, timeout=110,
        )  # fmt: skip
    return _outcomes(done)


def alongside(tool: str, theirs: str, lines: Sequence[list[str]]) -> list[tuple[Outcome, Outcome]]:
    """What *theirs* and ours make of each command line on this machine."""
    done = subprocess.run(
        [sys.executable, __file__, tool, theirs, ""],
        input=json.dumps([asdict(Case(line)) for line in lines]),
        capture_output=True, text=True, timeout=800,
    )  # fmt: skip
    return _outcomes(done)


def as_tool(tool: str, *argv: str) -> list[str]:
    """Ours as a command that is called by the tool's name, for whoever can run the interpreter."""
    code = f"import sys; sys.argv[0] = {tool!r}; import zerosys.cli; sys.exit(zerosys.cli.main())"
    return [sys.executable, "-c", code, *argv]


def tells_the_same(theirs: list[str], ours: list[str], *, slack: float = 0, tries: int = 10) -> None:
    """Assert that both commands print the same of this machine, but for numbers that move meanwhile.

    Theirs runs before and after ours: what is the same in both must be the same in ours. What comes and
    goes again between the two, a number or with -z a line, takes another try. Free memory and such may
    differ by *slack* all the same: our interpreter takes some while it looks.
    """
    for _ in range(tries):
        runs = [
            subprocess.run(run, capture_output=True, text=True, timeout=100) for run in (theirs, ours, theirs)
        ]
        assert [run.returncode for run in runs] == [runs[0].returncode] * 3, runs
        before, middle, after = [re.findall(r"\S+|\n", run.stdout) for run in runs]
        if len(before) == len(middle) == len(after):
            words = zip(before, middle, after, strict=True)
            if all(now in (old, new) or _moved(old, now, new, slack) for old, now, new in words):
                return
    raise AssertionError("\n".join(run.stdout for run in runs))


def _moved(old: str, now: str, new: str, slack: float) -> bool:
    if not all(re.fullmatch(r"\d+(\.\d+)?", word) for word in (old, now, new)):
        return False
    return old != new or abs(float(now) - float(old)) <= slack


def _outcomes(done: subprocess.CompletedProcess) -> list[tuple[Outcome, Outcome]]:
    if done.returncode:
        raise RuntimeError(f"{done.stdout}{done.stderr}")
    return [(Outcome(*one), Outcome(*other)) for one, other in json.loads(done.stdout)]


def _lay(root: Path, files: dict[str, str]) -> None:
    for name in ("node", "proc"):
        for path in sorted((root / name).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))


def _forked(tool: str, argv: list[str], env: dict[str, str]) -> tuple[int, str, str]:
    """Run ours as the script of that name would be run."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if not pid:
            status = 70
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                os.environ.update(env)
                sys.argv[:] = [f"/usr/bin/{tool}", *argv]
                from zerosys.cli import main

                status = main()
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return status, _decoded(out.read()), _decoded(err.read())


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


def _inside(tool: str, theirs: str, root: str) -> None:
    for module in ("filling", "processes"):  # once, before the forks
        with contextlib.suppress(ModuleNotFoundError):
            import_module(f"zerosys.cli.{tool}.{module}")
    import_module("zerosys.migration")
    outcomes = []
    for case in json.load(sys.stdin):
        if root:
            _lay(Path(root), case["files"])
        done = subprocess.run(
            [tool, *case["argv"]],
            executable=theirs,
            capture_output=True,
            env={**os.environ, **case["env"]},
        )
        one = done.returncode, _decoded(done.stdout), _decoded(done.stderr)
        outcomes.append([one, _forked(tool, case["argv"], case["env"])])
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    _inside(*sys.argv[1:])
