"""What the commands' parsers share: how helps look, how wrong usage is told, what ends mean to a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EXITS = """exit status:
  0    done; for demo: every promise held
  1    something failed, or a promise did not hold; stderr says what
  2    wrong usage
  130  ended by Ctrl-C
  141  nobody read the output
"""
_STRAY = "unrecognized arguments: "


def meant(word: str, known: Iterable[str]) -> str:
    """``did you mean X?``, with the one of *known* that a misspelt *word* is near to; else nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]}?" if near else ""


class Help(argparse.HelpFormatter):
    """Fills paragraphs as usual, but leaves text of several lines, such as EXITS, as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """Tells what a misspelt option or word may have meant, and what could not be written."""

    def error(self, message: str) -> NoReturn:
        """Tell wrong usage, on stderr, and end with status 2."""
        for word in message.removeprefix(_STRAY).split() if message.startswith(_STRAY) else ():
            if word.startswith("-") and (hint := meant(word.partition("=")[0], self._option_string_actions)):
                message += f"; {hint}"
                break
        for action in self._actions:  # a part is missing
            if isinstance(action, argparse._SubParsersAction) and message.endswith(f": {action.metavar}"):
                message += f"; there are: {', '.join(action.choices)}"
        super().error(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as wrong:
            hint = meant(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(
                action, f"{wrong.message}; {hint}" if hint else wrong.message
            ) from None

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse's own passes over what goes wrong here.
        if message:
            (file or sys.stderr).write(message)


class Part(Parser):
    """The parser of a command's part, such as ``ring ls``: what is wrong in it is told with its own usage."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Take all of *args*, which are this part's alone."""
        chosen, strays = super().parse_known_args(args, namespace)
        if strays:
            self.error(_STRAY + " ".join(strays))
        return chosen, strays
