"""Run all questions, or those named, a process each: ``python -m benchmarks [NAME ...] [--option ...]``."""

import subprocess
import sys
from itertools import takewhile

from benchmarks.common import RESULTS, questions
from benchmarks.outcome import page


def main() -> int:
    named = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    options = sys.argv[1 + len(named) :]
    chosen = named or questions()
    if unknown := set(chosen) - set(questions()):
        sys.exit(f"no such question: {', '.join(sorted(unknown))}; there are {', '.join(questions())}")
    failed = [
        name
        for name in chosen
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options]).returncode
    ]
    if "--quick" not in options:
        (RESULTS / "README.md").write_text(page())
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
