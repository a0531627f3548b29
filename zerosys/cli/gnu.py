"""Options as getopt_long(3) takes them, for the tools that are to be called as their originals are.

argparse reads other lines: it knows no option whose argument must touch it, such as ``-s1``,
and it would refuse with words of its own.
"""

from __future__ import annotations

import os
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

#: *argument* names what the option takes ("" for nothing), *optional* whether it may be left out
#: (then it must touch the option).
Option = namedtuple("Option", "short long argument optional help", defaults=("", "", False, ""))


class Usage(ValueError):
    """A line that the tool does not take, said as getopt says it."""


def parse(
    argv: Sequence[str], options: Sequence[Option], *, ordered: bool = False
) -> Iterator[tuple[str, str | None]]:
    """Each option of *argv*, by its letter or else its name, with its argument; then each operand, by "".

    Options may follow operands unless *ordered* or POSIXLY_CORRECT is set, and ``--`` ends them. Raises
    Usage where a wrong word is reached, after what is before it. See getopt_long(3).
    """
    ordered = ordered or "POSIXLY_CORRECT" in os.environ
    operands: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--" or (ordered and not _is_option(word)):
            operands += rest if word == "--" else [word, *rest]
            break
        if not _is_option(word):
            operands.append(word)
        elif word.startswith("--"):
            yield _long(word[2:], rest, options)
        else:
            yield from _cluster(word[1:], rest, options)
    for operand in operands:
        yield "", operand


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _cluster(letters: str, rest: list[str], options: Sequence[Option]) -> Iterator[tuple[str, str | None]]:
    """The options of one word such as ``-czs1``, whose last may have its argument in *rest*."""
    while letters:
        letter, letters = letters[0], letters[1:]
        option = next((one for one in options if one.short == letter), None)
        if option is None:
            raise Usage(f"invalid option -- '{letter}'")
        if not option.argument:
            yield letter, None
            continue
        if not letters and not option.optional:
            if not rest:
                raise Usage(f"option requires an argument -- '{letter}'")
            yield letter, rest.pop(0)
        else:
            yield letter, letters or None
        return


def _long(text: str, rest: list[str], options: Sequence[Option]) -> tuple[str, str | None]:
    """The option of a word such as ``--help``, which may be cut short where that is no other's."""
    name, equals, value = text.partition("=")
    near = [one for one in options if one.long and one.long.startswith(name)]
    near = [one for one in near if one.long == name] or near
    if not near:
        raise Usage(f"unrecognized option '--{name}'")
    if len(near) > 1:
        possible = "".join(f" '--{one.long}'" for one in near)
        raise Usage(f"option '--{text}' is ambiguous; possibilities:{possible}")
    option = near[0]
    key = option.short or option.long
    if not option.argument:
        if equals:
            raise Usage(f"option '--{option.long}' doesn't allow an argument")
        return key, None
    if not equals and not option.optional:
        if not rest:
            raise Usage(f"option '--{option.long}' requires an argument")
        return key, rest.pop(0)
    return key, value if equals else None


def described(
    prog: str, description: str, options: Sequence[Option], operands: str, epilog: str
) -> argparse.ArgumentParser:
    """The options as an argparse parser: what completion and the man page are made from."""

    from zerosys.cli.usage import Help, Parser

    made = Parser(prog=prog, description=description, epilog=epilog, formatter_class=Help, add_help=False)
    for option in options:
        names = [f"-{option.short}"] * bool(option.short) + [f"--{option.long}"] * bool(option.long)
        if not option.argument:
            made.add_argument(*names, action="store_true", help=option.help)
        else:
            nargs = "?" if option.optional else None
            made.add_argument(*names, metavar=option.argument, nargs=nargs, help=option.help)
    if operands:
        made.add_argument("operands", metavar=operands, nargs="*")
    return made
