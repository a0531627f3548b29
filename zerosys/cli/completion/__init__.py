"""``zerosys completion``: a script by which a shell completes the command's words."""

from __future__ import annotations

import argparse
import sys

from zerosys.cli.usage import EXITS, Help, Parser

_EPILOG = """bash, in ~/.bashrc:
  eval "$(zerosys completion bash)"
zsh, in ~/.zshrc, after compinit:
  eval "$(zerosys completion zsh)"
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The command's arguments."""
    made = Parser(
        prog=prog,
        description="Print a script by which SHELL completes the words of zerosys and of its tools.",
        epilog=f"{_EPILOG}\n{EXITS}",
        formatter_class=Help,
    )
    made.add_argument("shell", choices=("bash", "zsh"), metavar="SHELL", help="bash or zsh")
    return made


def main(argv: list[str], prog: str) -> int:
    """Print the script; return 0."""
    chosen = parser(prog).parse_args(argv)
    from zerosys.cli import tree
    from zerosys.cli.completion import bash, zsh

    script = bash.script if chosen.shell == "bash" else zsh.script
    sys.stdout.write(script(tree.whole(), tree.tools()))
    return 0
