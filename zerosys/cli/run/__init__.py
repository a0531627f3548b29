"""``zerosys run``: a command with its CPUs and memory where they are wanted, as numactl's options say it."""

from __future__ import annotations

import errno
import sys

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    import argparse

#: As with env(1) and timeout(1): the command's own codes below, ours above.
FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
EXITS = """exit status:
  125  this went wrong before the command ran; stderr says what
  126  the command was found, and cannot be run
  127  the command was not found
  else the command's own: this process becomes it
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments, for a help text, a manual page and completion; reading them is plan.Asked's."""
    from zerosys.cli.numactl.usage import described
    from zerosys.cli.run.plan import OPTIONS

    return described(
        prog,
        OPTIONS,
        "Run COMMAND with its CPUs and memory on chosen NUMA nodes. Options are read up to the first word"
        " that is none, or --. What cannot be had is an error, unless --best-effort or --allowed-only says"
        " otherwise.",
        EXITS,
    )


def main(argv: list[str], prog: str) -> int:
    """Place this process and become the command; return only where that fails, or there is none."""
    try:
        return _run(argv, prog)
    except BrokenPipeError:
        raise  # nobody reads the plan
    except (OSError, ValueError) as failure:
        from zerosys.cli import let_go, said
        from zerosys.cli.gnu import Usage

        print(f"{prog}: {said(failure)}", file=sys.stderr)
        let_go()  # what could not be written, perhaps
        if isinstance(failure, Usage):
            print(f"{prog} --help tells the options", file=sys.stderr)
        return FAILED


def _run(argv: list[str], prog: str) -> int:
    from zerosys.cli.run.plan import Asked, Plan

    asked = Asked(argv)
    if "help" in asked.flags:
        parser(prog).print_help()
        return 0
    plan = Plan(asked)
    plan.apply()
    if "plan" in asked.flags:
        from zerosys.cli.run import report

        print(report.as_json(plan) if "json" in asked.flags else report.text(plan), flush=True)
        return 0
    for remark in plan.remarks:
        print(f"{prog}: {remark}", file=sys.stderr)
    return _become(plan.command, prog)


def _become(command: list[str], prog: str) -> int:
    from zerosys.cli.numactl.launching import become

    try:
        become(command)
    except OSError as refusal:
        why = (refusal.strerror or "").removeprefix("execvpe: ")
        from zerosys.cli.table import plain

        print(f"{prog}: {plain(command[0])}: {why}", file=sys.stderr)
        return NOT_FOUND if refusal.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
