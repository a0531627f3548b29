"""``zerosys doctor``: one screen of what works here, and what to do about what does not."""

from __future__ import annotations

import argparse
import json

from zerosys.cli.table import plain
from zerosys.cli.usage import Help, Parser

_MARKS = {"ok": "ok", "absent": "-", "limited": "limited", "broken": "BROKEN"}
_EXITS = """exit status:
  0    everything that zerosys can use works
  1    something is limited: it works, with less than it could
  2    something is broken, or wrong usage
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = Parser(
        prog=prog,
        description="Tell what works on this machine and in this process, by trying it, and what to do about"
        " what does not. Nothing is changed, and nothing left behind.",
        epilog=_EXITS,
        formatter_class=Help,
    )
    made.add_argument("--json", action="store_true", help="print the findings as JSON")
    return made


def main(argv: list[str], prog: str) -> int:
    """Print the findings; return 0, 1 or 2."""
    chosen = parser(prog).parse_args(argv)
    from zerosys.doctor import check, exit_status

    findings = check()
    if chosen.json:
        print(json.dumps({"findings": [finding.to_dict() for finding in findings]}, indent=2))
        return exit_status(findings)
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{_MARKS[finding.state]:<8} {finding.what:<{width}}  {plain(finding.evidence)}")
        if finding.remedy:
            print(f"{'':<8} {'':<{width}}  -> {plain(finding.remedy)}")
    return exit_status(findings)
