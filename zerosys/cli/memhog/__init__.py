"""``zerosys-memhog``: memhog's arguments, output and exit status; its messages say why."""

from __future__ import annotations

import os
import sys

from zerosys.cli.c_numbers import strtoul
from zerosys.cli.gnu import Option, described
from zerosys.cli.memhog.job import Job
from zerosys.cli.nodeset import numactl_set

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

OPTIONS = (
    Option("f", "", "FILE", help="memory that is FILE's, which exists and is long enough"),
    Option("r", "", "NUM", help="fill it NUM times"),
    Option("H", "", help="without transparent huge pages"),
)
# As they are listed, each with whether it takes nodes.
POLICIES = {
    "preferred-many": True,
    "local": False,
    "interleave": True,
    "membind": True,
    "preferred": True,
    "default": False,
}
EXAMPLES = """examples:
  zerosys-memhog 1g                    fill 1 GiB once
  zerosys-memhog -r6 1g membind 0      six times, on node 0
  zerosys-memhog -f/dev/shm/x 64m interleave 0-1

exit status:
  0    it was filled, even where the policy was refused
  1    wrong usage, or there is no memory to be had; stderr says why
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The tool's arguments."""
    about = "Fill memory, under a policy if one is named, to see what comes of it."
    return described(prog, about, OPTIONS, "SIZE[k|m|g] [POLICY [NODES]]", EXAMPLES)


def main(argv: list[str], prog: str) -> int:
    """Behave as memhog does; return its exit status."""
    job, words = Job(), list(argv)
    while words and words[0].startswith("-"):
        if not _option(job, words.pop(0)):
            return _usage(prog)
    if not words:
        return _usage(prog)
    job.size = _size(words.pop(0))
    if words:
        job.policy = words.pop(0).lstrip("-")
        if job.policy not in POLICIES or (POLICIES[job.policy] and not words):
            return _usage(prog)
    if POLICIES[job.policy]:
        try:
            job.nodes = numactl_set(words[0])
        except (ValueError, OSError) as wrong:
            print(f"<{words[0]}> is invalid")
            print(f"{prog}: {wrong.strerror if isinstance(wrong, OSError) else wrong}", file=sys.stderr)
            return 1
    from zerosys.cli.memhog.filling import run

    return run(job, prog)


def _option(job: Job, word: str) -> bool:
    """Take an option as memhog does: its argument touches it, and what else follows a letter is nothing."""
    letter, value = word[1:2], word[2:]
    if letter == "f":
        job.file = value
    elif letter == "r":
        count = strtoul(value)[0]
        job.repeat = count if count < 1 << 31 else 0
    elif letter == "H":
        job.huge = False
    return letter in ("f", "r", "H") and letter != ""


def _size(text: str) -> int:
    """The bytes of *text*: what follows the number counts by its first letter, and else is nothing."""
    number, rest = strtoul(text)
    return number << {"k": 10, "m": 20, "g": 30}.get(rest[:1].lower(), 0) & (1 << 64) - 1


def _usage(prog: str) -> int:
    print(f"{os.path.basename(prog)} [-fFILE] [-rNUM] size[kmg] [policy [nodeset]]")
    print("-f mmap is backed by FILE")
    print("-rNUM repeat memset NUM times")
    print("-H disable transparent hugepages")
    print("Policies: " + " ".join(POLICIES))
    return 1
