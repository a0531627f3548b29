"""Command lines for numactl, made by chance, and what two numactls make of the same one."""

import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import debian

from zerosys import cli

Excuse = Callable[[Sequence[str], Sequence[int]], str | None]
# What a command sees of its placement: the CPUs, and the policy of its memory.
PROBE = (
    "grep ^Cpus_allowed_list: /proc/self/status; sed 's/ file=.*//; s/[^ ]* //; q' /proc/self/numa_maps;"
    " exit 3"
)
POLICIES = ("-i", "--interleave", "-p", "--preferred", "-P", "--preferred-many", "-m", "--membind", "--mem")
PINS = ("-N", "--cpunodebind", "--cpubind", "-c")


class Lines:
    """Makes command lines for a machine of these *nodes* and *cpus*; the same ones for the same *seed*."""

    def __init__(self, nodes: Sequence[int], cpus: Sequence[int], seed: int) -> None:
        self.nodes, self.cpus = nodes, cpus
        self.chance = random.Random(seed)

    def some(self, n: int) -> Iterator[list[str]]:
        for _ in range(n):
            yield self.line()

    def line(self) -> list[str]:
        pick = self.chance
        words: list[str] = []
        if pick.random() < 0.25:
            words.append(pick.choice(["-a", "--all"]))
        for _ in range(pick.choice([1, 1, 1, 2, 2, 3])):
            words += self.option()
        end = pick.random()
        if end < 0.2:
            return [*words, pick.choice(["-s", "--show"])]
        return [*words, *pick.choice([[], [], ["--"]]), "sh", "-c", PROBE]

    def option(self) -> list[str]:
        pick = self.chance.random()
        if pick < 0.45:
            return self.valued(self.chance.choice(POLICIES), self.set_of(self.nodes))
        if pick < 0.65:
            return self.valued(self.chance.choice(PINS), self.set_of(self.nodes))
        if pick < 0.82:
            return self.valued(self.chance.choice(["-C", "--physcpubind", "--phys"]), self.set_of(self.cpus))
        return self.chance.choice(
            [["-l"], ["--localalloc"], ["-b"], ["--balancing"], ["-t"], ["-a"], ["--huge"], ["-T"], ["-x"]]
        )

    def valued(self, option: str, value: str) -> list[str]:
        if option.startswith("--"):
            return self.chance.choice([[f"{option}={value}"], [option, value]])
        return self.chance.choice([[option + value], [option, value]]) if value else [option, value]

    def set_of(self, members: Sequence[int]) -> str:
        """A set as people write it, right or wrong."""
        pick = self.chance
        first, last = sorted(pick.choices(members, k=2))
        wrong = max(members) + pick.choice([1, 7, 90])
        count, highest = len(members), max(members)
        right = [str(first), str(last), f"{first},{last}", f"{first}-{last}", "all", f"{first}-{highest}"]
        right += [",".join(map(str, members)), f"!{first}", "+0", f"+0-{count - 1}", "same", f" {first}"]
        slips = [str(wrong), f"{first},{wrong}", f"{first}-{wrong}", "x", f"{first},", f"{first}-", ""]
        slips += ["all,0", f"+{count}", "-1", f"{first}.5"]
        return pick.choice(right if pick.random() < 0.7 else slips)


@dataclass(frozen=True)
class Seen:
    code: int
    output: str
    said: bool  # whether anything was written to stderr: its words are each one's own

    def __str__(self) -> str:
        return f"{self.code} {self.output!r}{' and a message' if self.said else ''}"


def seen(numactl: Path | str, line: Sequence[str]) -> Seen:
    """What the program *numactl* makes of *line*."""
    done = subprocess.run(
        [str(numactl), *line], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    return _seen(done.returncode, done.stdout, done.stderr)


def seen_here(line: Sequence[str]) -> Seen:
    """What ours makes of *line* in a child of this process, which spares an interpreter's start."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        child = os.fork()
        if not child:
            _become_numactl(line, said.fileno(), complained.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = [(file.seek(0), file.read())[1] for file in (said, complained)]
    return _seen(code, *texts)


def _become_numactl(line: Sequence[str], out: int, err: int) -> NoReturn:
    status = 99
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = open(1, "w"), open(2, "w", buffering=1)
        sys.argv = ["numactl", *line]
        status = cli.main()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _seen(code: int, output: str, complaint: str) -> Seen:
    if code == 1:
        return Seen(1, "", bool(complaint + output))  # refused: numactl says why on either stream
    return Seen(code, without_turn(output), bool(complaint))


def without_turn(shown: str) -> str:
    """What --show says, less the node whose turn it is: each page that the process touches moves it on."""
    return re.sub(
        r"^(preferred node: )\d+(?= \(interleave next\))|^(interleavenode: )\d+", r"\1\2?", shown, flags=re.M
    )


def told(numactl: Path | str, option: str) -> tuple[int, str, str]:
    """How *numactl* ends when asked for *option* alone, and what it says, less the free memory."""
    done = subprocess.run([str(numactl), option], capture_output=True, text=True, timeout=100)
    return done.returncode, re.sub(r"free: \d+", "free: ?", done.stdout), done.stderr


def excuse(line: Sequence[str], nodes: Sequence[int]) -> str | None:
    """Which of the differences that docs/numactl.md lists this line shows, if any."""
    for word in line:
        if word.endswith("all,0"):
            return "all beside other members"
        if word.endswith(f"!{nodes[0]}") and len(nodes) == 1:
            return "all but the only one"
    return None


def differences(
    lines: Lines, n: int, excuse: Excuse = excuse, ours: Callable[[Sequence[str]], Seen] = seen_here
) -> list[str]:
    """A sentence for each of *n* lines of which *ours* and Debian's make different things.

    *excuse* names the known difference that a line shows, or None. Such a line is not compared, except
    that ours must not crash.
    """
    wrong, compared = [], 0
    for line in lines.some(n):
        mine = ours(line)
        if excuse(line, lines.nodes):
            if mine.code not in (0, 1, 3):
                wrong.append(f"{shlex.join(line)}: ours {mine}")
            continue
        theirs = seen(debian.tool("numactl"), line)
        compared += 1
        if (mine.code, mine.output) != (theirs.code, theirs.output) or (mine.code == 1 and not mine.said):
            wrong.append(f"{shlex.join(line[:-1])}: ours {mine}, theirs {theirs}")
    assert compared > n / 2, f"only {compared} of {n} lines were compared"
    return wrong
