"""Write docs/zerosys.1, the manual page of the whole command, from its parsers."""

import re
import textwrap
from pathlib import Path

import zerosys
from zerosys.cli import tree

TARGET = Path(__file__).resolve().parent.parent / "docs" / "zerosys.1"
HEAD = f""".\\" Made by ./dev docs from the command's parsers.
.TH ZEROSYS 1 "" "zerosys {zerosys.__version__}" "User Commands"
.SH NAME
zerosys \\- zero-copy calls and NUMA placement, from the shell
"""
TAIL = """.SH SEE ALSO
.BR numactl (8),
.BR numastat (8),
.BR splice (2),
.BR set_mempolicy (2),
.BR memfd_create (2)
"""


def roff(text: str) -> str:
    """*text* as roff takes it: no letter of it is a command."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def bold(text: str) -> str:
    return f"\\fB{roff(text)}\\fR"


def slanted(text: str) -> str:
    return f"\\fI{roff(text)}\\fR"


def synopsis(command: tree.Command) -> str:
    """One line: the words, that there are options, and the operands."""
    parts = [bold(command.name)]
    if command.options:
        parts.append(f"[{slanted('OPTION')}]...")
    if command.parts:
        parts.append(f"{slanted('COMMAND')} [{slanted('ARGUMENT')}]...")
    for operand in command.operands:
        name = slanted(operand.value) + ("..." if operand.many and not operand.command else "")
        parts.append(f"[{name}]" if operand.optional else name)
        if operand.command:
            parts.append(f"[{slanted('ARGUMENT')}]...")
    return " ".join(parts)


def option(one: tree.Option) -> str:
    ends = f" {slanted(one.value)}" if one.value else ""
    names = ", ".join(bold(name) for name in one.names) + ends
    choices = f" One of {', '.join(one.choices)}." if one.choices else ""
    return f".TP\n{names}\n{roff(one.help + choices)}\n"


def verbatim(text: str) -> str:
    """*text* as it stands, which has several lines; one long line is a paragraph."""
    text = textwrap.dedent(text).strip("\n")
    if "\n" not in text:
        return f".PP\n{roff(text)}\n"
    return f".PP\n.nf\n{roff(text)}\n.fi\n"


def section(command: tree.Command) -> str:
    """A command with its options; its parts follow as sections of their own."""
    lines = [f".SS {bold(command.name)}\n{synopsis(command)}\n.PP\n{roff(command.description)}\n"]
    for operand in command.operands:
        if operand.help:
            lines.append(f".TP\n{slanted(operand.value)}\n{roff(operand.help)}\n")
    lines += [option(one) for one in command.options]
    if command.epilog:
        lines.append(verbatim(command.epilog))
    return "".join(lines) + "".join(section(part) for part in command.parts)


def page() -> str:
    """The text of the page."""
    top, tools = tree.whole(), tree.tools()
    lines = [HEAD, f".SH SYNOPSIS\n{synopsis(top)}\n"]
    lines += [f".br\n{synopsis(tool)}\n" for tool in tools]
    lines.append(f".SH DESCRIPTION\n{roff(top.description)}\n")
    lines += [
        f".TP\n{bold(part.words[-1])}\n{roff(part.summary[:1].upper() + part.summary[1:])}.\n"
        for part in top.parts
    ]
    lines.append(f".SH OPTIONS\n{''.join(option(one) for one in top.options)}")
    lines.append(f".SH COMMANDS\n{''.join(section(part) for part in top.parts)}")
    lines.append(
        ".SH TOOLS\nCalled, or linked, by a tool's name, with zerosys\\- before it or without, zerosys is "
        f"that tool.\n{''.join(section(tool) for tool in tools)}"
    )
    return "".join(lines) + TAIL


if __name__ == "__main__":
    TARGET.write_text(page())
    print(f"wrote {TARGET.relative_to(Path.cwd()) if TARGET.is_relative_to(Path.cwd()) else TARGET}")
