"""The command ``zerosys``: which commands there are, and what their ends mean to a shell."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from importlib import import_module

# Each command: the module whose main(argv, prog) is it, and what it does. A module is
# imported when its command is asked for, since a command's start-up is felt.
COMMANDS = {
    "demo": ("zerosys.cli.demo", "move a file to another process without a copy, and prove it"),
    "doctor": ("zerosys.cli.doctor", "tell what works here, and what to do about what does not"),
    "region": ("zerosys.cli.region", "list, make and remove shared memory with names"),
}
EXITS = """exit status:
  0    done; for demo: every promise held
  1    something failed, or a promise did not hold; stderr says what
  2    wrong usage
  130  ended by Ctrl-C
  141  nobody read the output
"""


class Help(argparse.HelpFormatter):
    """Fills paragraphs as usual, but leaves text of several lines, such as EXITS, as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def parser() -> argparse.ArgumentParser:
    """The arguments before the command's own, and the list of commands."""
    from zerosys import __version__

    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {summary}" for name, (_, summary) in sorted(COMMANDS.items()))
    made = argparse.ArgumentParser(
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
    """Run the command that *argv* (sys.argv's arguments) names; return its exit status."""
    top = parser()
    chosen = top.parse_args(argv)
    if chosen.command is None:
        top.print_help()
        return 0
    if chosen.command not in COMMANDS:
        near = difflib.get_close_matches(chosen.command, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(COMMANDS))}"
        top.error(f"{chosen.command!r} is no command; {hint}")
    return _guarded(chosen.command, chosen.arguments)


def said(failure: OSError | ValueError) -> str:
    """*failure* as one sentence for people: without the number, the file it is about last."""
    if not isinstance(failure, OSError) or not failure.strerror:
        return str(failure)
    return f"{failure.strerror}: {failure.filename}" if failure.filename else failure.strerror


def _guarded(command: str, arguments: list[str]) -> int:
    prog = f"zerosys {command}"
    try:
        status = int(import_module(COMMANDS[command][0]).main(arguments, prog))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError as broken:
        if getattr(broken, "side", None):  # one of our transfers', not the terminal's
            print(f"{prog}: {broken}", file=sys.stderr)
            return 1
        # Nobody reads: point stdout away, or Python complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except (OSError, ValueError) as failure:
        print(f"{prog}: {said(failure)}", file=sys.stderr)
        return 1
    return status
