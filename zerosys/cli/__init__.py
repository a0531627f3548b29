"""The command ``zerosys``: which commands there are, and which tools it stands in for.

A command's start-up is felt, so nothing is imported before it is known to be needed: not
even argparse, where the first argument already names a command.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

# Each command: the module whose main(argv, prog) is it and whose parser(prog) tells its
# arguments, and what it does.
COMMANDS = {
    "bench": ("zerosys.cli.bench", "measure this machine in a minute, each answer checked"),
    "completion": ("zerosys.cli.completion", "print a script by which bash or zsh completes these words"),
    "demo": ("zerosys.cli.demo", "move a file to another process without a copy, and prove it"),
    "doctor": ("zerosys.cli.doctor", "tell what works here, and what to do about what does not"),
    "hardware": ("zerosys.cli.hardware", "tell the machine's nodes: CPUs, memory, distances"),
    "hugepages": ("zerosys.cli.hugepages", "see and set the pools of huge pages of each node"),
    "migrate": ("zerosys.cli.migrate", "move a process's memory between nodes, and tell what stayed"),
    "pump": ("zerosys.cli.pump", "carry bytes between files, pipes and sockets without a copy"),
    "region": ("zerosys.cli.region", "list, make and remove shared memory with names"),
    "relay": ("zerosys.cli.relay", "join sockets both ways without a copy, thousands at once"),
    "ring": ("zerosys.cli.ring", "see rings with names, tail, record and play their streams"),
    "run": ("zerosys.cli.run", "run a command with its CPUs and memory on chosen nodes"),
    "show": ("zerosys.cli.show", "tell the memory policy and the CPUs that commands get here"),
    "stat": ("zerosys.cli.stat", "tell where the memory of processes lies"),
    "top": ("zerosys.cli.top", "watch the memory of nodes, and the processes behind it"),
}
# Each tool that the command is when it is called, or linked, by that name or zerosys-NAME:
# the module whose main(argv, prog) behaves as the tool does.
TOOLS = {
    "memhog": "zerosys.cli.memhog",
    "migratepages": "zerosys.cli.migratepages",
    "numactl": "zerosys.cli.numactl",
    "numastat": "zerosys.cli.numastat",
}
# What the library tells Python's users to pass, as the commands have it; nothing where they do not.
_IN_SHELL = {
    ", or lock='try'": ", or leave out --lock",
    ", or pass force=True, and the kernel may kill this process or another": "",
    "strict=False keeps": "--partial keeps",
    "which strict refuses": "which --strict refuses",
}


def parser() -> argparse.ArgumentParser:
    """The arguments before the command's own, and the list of commands."""
    import argparse

    from zerosys import __version__
    from zerosys.cli.usage import EXITS, Help, Parser

    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {summary}" for name, (_, summary) in sorted(COMMANDS.items()))
    made = Parser(
        prog="zerosys",
        description="Linux's zero-copy calls and NUMA placement.",
        epilog=f"commands:\n{listing}\n\nzerosys COMMAND --help tells about one of them.\n\n{EXITS}",
        formatter_class=Help,
    )
    made.add_argument("--version", action="version", version=f"zerosys {__version__}")
    made.add_argument("command", nargs="?", metavar="COMMAND")
    made.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command that *argv* (sys.argv's arguments) names; return its exit status.

    Without *argv* the program's own name counts too: a tool's name makes it that tool.
    """
    if argv is None:
        argv = sys.argv[1:]
        tool = os.path.basename(sys.argv[0]).removeprefix("zerosys-")
        if tool in TOOLS:
            return _run(TOOLS[tool], argv, tool)
    if argv and argv[0] in COMMANDS:
        return _command(argv[0], argv[1:])
    return _guarded(lambda: _unusual(argv), "zerosys")


def _command(name: str, arguments: list[str]) -> int:
    return _run(COMMANDS[name][0], arguments, f"zerosys {name}")


def _run(module: str, arguments: list[str], prog: str) -> int:
    return _guarded(lambda: int(import_module(module).main(arguments, prog)), prog)


def _unusual(argv: list[str]) -> int:
    """Do what *argv* says, which does not begin with a command's name."""
    top = parser()
    chosen = top.parse_args(argv)
    if chosen.command in COMMANDS:
        return _command(chosen.command, chosen.arguments)
    if chosen.command is None:
        top.print_help()
    else:
        from zerosys.cli.usage import meant

        hint = meant(chosen.command, COMMANDS) or f"there are: {', '.join(sorted(COMMANDS))}"
        top.error(f"{chosen.command!r} is no command; {hint}")
    return 0


def said(failure: OSError | ValueError) -> str:
    """*failure* as one sentence for people: without the number, the file it is about last.

    Names in it cannot steer the terminal.
    """
    from zerosys.cli.table import plain

    if not isinstance(failure, OSError) or not failure.strerror:
        return plain(str(failure))
    text = failure.strerror
    for in_python, in_shell in _IN_SHELL.items():
        text = text.replace(in_python, in_shell)
    return plain(f"{text}: {failure.filename}" if failure.filename else text)


class _Closed(io.TextIOBase):
    """Standard output that was closed before we began: whoever writes to it is told."""

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


class _Unheard(io.TextIOBase):
    """Standard error that was closed: nobody is left to be told, and standard output is for others."""

    def write(self, text: str, /) -> int:
        return len(text)


def _prepare_streams() -> None:
    """Have something where Python has None, which print() would take for standard output; show any name."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    elif isinstance(sys.stdout, io.TextIOWrapper):  # a name may have letters, or bytes, that it has not
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is None:
        sys.stderr = _Unheard()


def let_go() -> None:
    """Write no more to standard output: what is left, Python would try at exit once more, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _guarded(work: Callable[[], int], prog: str) -> int:
    """The status of *work*, once its output is out; what goes wrong is told in a line that names *prog*."""
    _prepare_streams()
    status = 0
    try:
        try:
            status = work()
        except SystemExit as end:  # argparse's: it told of usage
            status = end.code if isinstance(end.code, int) else 1
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        status = 130
    except BrokenPipeError as broken:
        status = 141  # nobody reads
        if getattr(broken, "side", None):  # one of our transfers', not the terminal's
            print(f"{prog}: {broken}", file=sys.stderr)
            status = 1
    except (OSError, ValueError) as failure:
        print(f"{prog}: {said(failure)}", file=sys.stderr)
        status = status or 1
    let_go()
    return status
