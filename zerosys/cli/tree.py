"""The whole command as plain data, read from the parsers: what completion and the manual page are made of."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module

from zerosys import cli


@dataclass
class Option:
    """One option: its names, what its value is called ("" for none), the values it may have, its help."""

    names: list[str]
    value: str
    choices: list[str]
    help: str


@dataclass
class Operand:
    """One argument that is no option: whether it may be missing, be several words, be a command."""

    value: str
    choices: list[str]
    help: str
    optional: bool
    many: bool
    command: bool


@dataclass
class Command:
    """A command, or a part of one, by the words that call it."""

    words: list[str]
    summary: str
    description: str
    epilog: str
    options: list[Option] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)
    parts: list[Command] = field(default_factory=list)

    @property
    def name(self) -> str:
        return " ".join(self.words)

    def walk(self) -> Iterator[Command]:
        """This, and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def whole() -> Command:
    """``zerosys`` with all its commands."""
    top = _read(cli.parser(), ["zerosys"], "")
    top.operands = []
    top.parts = [
        _read(import_module(module).parser(f"zerosys {name}"), ["zerosys", name], summary)
        for name, (module, summary) in sorted(cli.COMMANDS.items())
    ]
    return top


def tools() -> list[Command]:
    """The tools that zerosys is under other names."""
    return [
        _read(import_module(module).parser(f"zerosys-{name}"), [f"zerosys-{name}"], f"what {name} does")
        for name, module in sorted(cli.TOOLS.items())
    ]


def _read(parser: argparse.ArgumentParser, words: list[str], summary: str) -> Command:
    made = Command(words, summary, parser.description or "", parser.epilog or "")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            made.parts = [
                _read(part, [*words, name], helps.get(name, "")) for name, part in action.choices.items()
            ]
        elif action.help is argparse.SUPPRESS:
            continue
        elif action.option_strings:
            made.options.append(_option(action, parser))
        else:
            made.operands.append(_operand(action, parser))
    return made


def _option(action: argparse.Action, parser: argparse.ArgumentParser) -> Option:
    value = "" if action.nargs == 0 else _value(action)
    return Option(list(action.option_strings), value, _choices(action), _help(action, parser))


def _operand(action: argparse.Action, parser: argparse.ArgumentParser) -> Operand:
    command = action.nargs == argparse.REMAINDER
    many = command or action.nargs in ("*", "+")
    optional = action.nargs in ("?", "*")
    return Operand(_value(action), _choices(action), _help(action, parser), optional, many, command)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    return action.metavar or ("WORD" if action.choices else action.dest.upper().replace("_", "-"))


def _choices(action: argparse.Action) -> list[str]:
    return [str(choice) for choice in action.choices or ()]


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """The help text, its ``%(default)s`` and the like filled in."""
    text = action.help or ""
    return text % {**vars(action), "prog": parser.prog} if "%(" in text else text
