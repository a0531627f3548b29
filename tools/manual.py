"""Write docs/man.md, the manual as a page of the site, from the parsers that docs/zerosys.1 is made from."""

import re
import textwrap
from pathlib import Path

from zerosys.cli import tree

TARGET = Path(__file__).resolve().parent.parent / "docs" / "man.md"
HEAD = """# zerosys(1): every command and option

Made by `./dev docs` from the commands' parsers, as is the manual page [zerosys.1](zerosys.1):
`man docs/zerosys.1` in a clone, `man zerosys` where it is installed.
Each command tells its part of this with `--help`.
"""
TOOLS = """
## Tools of other names

Called, or linked, by a tool's name, with `zerosys-` before it or without, zerosys is that tool.
"""
_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")


def plain(text: str) -> str:
    """*text* as Markdown takes it: no letter of it is markup, and options are code."""
    escaped = re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)
    return _OPTION.sub(r"`\1`", escaped)


def synopsis(command: tree.Command) -> str:
    """One line: the words, that there are options, and the operands."""
    parts = [command.name]
    parts += ["[OPTION]..."] * bool(command.options)
    parts += ["COMMAND [ARGUMENT]..."] * bool(command.parts)
    for operand in command.operands:
        name = operand.value + "..." * (operand.many and not operand.command)
        parts.append(f"[{name}]" if operand.optional else name)
        parts += ["[ARGUMENT]..."] * operand.command
    return " ".join(parts)


def item(names: str, text: str, choices: list[str]) -> str:
    """A line of a list: an option or operand, and what it does."""
    told = [plain(text)] if text else []
    if not all(choice in text for choice in choices):
        told.append(f"one of {', '.join(f'`{choice}`' for choice in choices)}")
    return f"- {names}{': ' if told else ''}{'; '.join(told)}\n"


def option(one: tree.Option) -> str:
    value = f" {one.value}" if one.value else ""
    names = ", ".join(f"`{name}`" for name in one.names[:-1])
    return item(f"{names}{', ' if names else ''}`{one.names[-1]}{value}`", one.help, one.choices)


def text_of(epilog: str) -> str:
    """What follows the options: as it stands if it has several lines, which are laid out."""
    epilog = textwrap.dedent(epilog).strip("\n")
    if "\n" not in epilog:
        return f"\n{plain(epilog)}\n" if epilog else ""
    return f"\n```text\n{epilog}\n```\n"


def section(command: tree.Command, level: int) -> str:
    """A command with its options; then its parts."""
    lines = [f"\n{'#' * level} {command.name}\n\n```text\n{synopsis(command)}\n```\n\n"]
    lines.append(f"{plain(command.description)}\n\n")
    lines += [item(f"`{one.value}`", one.help, one.choices) for one in command.operands if one.help]
    lines += [option(one) for one in command.options]
    lines.append(text_of(command.epilog))
    return "".join(lines) + "".join(section(part, level + 1) for part in command.parts)


def page() -> str:
    """The text of the page."""
    top = tree.whole()
    lines = [HEAD, f"\n```text\n{synopsis(top)}\n```\n\n{plain(top.description)}\n\n"]
    lines += [option(one) for one in top.options]
    lines += [section(part, 2) for part in top.parts]
    lines += [TOOLS, *(section(tool, 3) for tool in tree.tools())]
    return "".join(lines)


if __name__ == "__main__":
    TARGET.write_text(page())
    print(f"wrote {TARGET.relative_to(Path.cwd()) if TARGET.is_relative_to(Path.cwd()) else TARGET}")
