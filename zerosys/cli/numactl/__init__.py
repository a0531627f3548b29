"""numactl, as ``zerosys-numactl`` or a link called numactl: its options, its output, its exit codes."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    import argparse


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments, for a help text, a manual page and completion; reading them is options.Words's."""
    from zerosys.cli.numactl.options import NUMACTL
    from zerosys.cli.numactl.usage import described

    return described(
        prog,
        NUMACTL,
        "Run a command with its CPUs and memory on chosen NUMA nodes, or set the policy of shared memory."
        " Options take effect in the order in which they stand.",
    )


def main(argv: list[str], prog: str) -> int:
    """Do what numactl does; return its exit status, unless this process became the command."""
    from zerosys.cli.gnu import Usage
    from zerosys.cli.numactl.launching import become
    from zerosys.cli.numactl.session import Done, Session

    try:
        command = Session(prog).command(argv)
    except Done as done:
        return done.status
    except Usage as wrong:
        sys.stdout.flush()
        print(f"{prog}: {wrong}", file=sys.stderr)
        sys.stderr.write(parser(prog).format_usage())
        return 1
    try:
        become(command)
    except OSError as refusal:
        why = (refusal.strerror or "").removeprefix("execvpe: ")
        print(f"{prog}: execution of `{command[0]}': {why}", file=sys.stderr)
        return 1
