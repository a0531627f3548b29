"""The completion script for zsh: a function for each command, in terms of its _arguments."""

from __future__ import annotations

from zerosys.cli.completion.kinds import kind_of
from zerosys.cli.tree import Command, Option

_CODE = r"""
_zerosys_numbers() { # KIND: the numbers of nodes or CPUs, of which a list may be made
    local -a numbers=(/sys/devices/system/$1/$1<->(N:t))
    numbers=(all ${numbers#$1})
    compset -P '*[,!+-]'
    compadd -S '' -a numbers
}
"""
_ACTIONS = {
    "file": "_files",
    "folder": "_files -/",
    "node": "_zerosys_numbers node",
    "cpu": "_zerosys_numbers cpu",
    "pid": "_pids",
    "nothing": " ",
}


def script(top: Command, tools: list[Command]) -> str:
    """The whole script: to be evaluated, or put into a folder of $fpath as _zerosys."""
    roots = [top, *tools]
    names = " ".join(root.name for root in roots)
    functions = [_function(command) for root in roots for command in root.walk()]
    return "".join(
        [
            f"#compdef {names}\n# zsh completion of zerosys; made by: zerosys completion zsh\n",
            _CODE,
            *functions,
            '\n_zerosys_by_name() { "_${${service:t}//-/_}" }\n',
            f"compdef _zerosys_by_name {names}\n",
        ]
    )


def _named(command: Command) -> str:
    return "_" + command.name.replace(" ", "_").replace("-", "_")


def _function(command: Command) -> str:
    lines = ["    _arguments -s -S"] + [f"        {_option(option)}" for option in command.options]
    if command.parts:
        lines += ["        '1:command:->part'", "        '*::argument:->arguments'"]
    else:
        lines += [f"        {operand}" for operand in _operands(command)]
    body = " \\\n".join(lines)
    if command.parts:
        body = "    local curcontext=$curcontext state line\n" + body + "\n" + _parts(command)
    return f"\n{_named(command)}() {{\n{body}\n}}\n"


def _parts(command: Command) -> str:
    listed = "\n".join(f"            {_quoted(_part(part))}" for part in command.parts)
    calls = "\n".join(f"                {part.words[-1]}) {_named(part)} ;;" for part in command.parts)
    return f"""    case $state in
        part)
            local -a parts=(
{listed}
            )
            _describe command parts
            ;;
        arguments)
            case $words[1] in
{calls}
            esac
            ;;
    esac"""


def _part(part: Command) -> str:
    return f"{part.words[-1]}:{part.summary.replace(':', chr(92) + ':')}"


def _option(option: Option) -> str:
    """'(-m --membind)'{-m,--membind=}'[help]:NODES:action', as _arguments takes it."""
    text = f"[{_escaped(option.help)}]"
    for value in option.value.split():
        text += f":{_escaped(value)}:{_action(value, option.choices)}"
    # Of a letter the value follows at once or in the next word, of a name behind = or in the next word.
    ends = ("=" if option.value else "", "+" if option.value else "")
    names = [name + ends[not name.startswith("--")] for name in option.names]
    if len(names) == 1:
        return _quoted(names[0] + text)
    return f"'({' '.join(option.names)})'{{{','.join(names)}}}{_quoted(text)}"


def _operands(command: Command) -> list[str]:
    found = []
    for operand in command.operands:
        if operand.command:
            found.append("'(-)1:command:_command_names -e'")
            found.append("'*::argument:_normal'")
        else:
            begin = "*" if operand.many else ""
            found.append(
                _quoted(f"{begin}:{_escaped(operand.value)}:{_action(operand.value, operand.choices)}")
            )
    return found


def _action(value: str, choices: list[str]) -> str:
    kind = kind_of(value, choices)
    return f"({' '.join(choices)})" if kind == "words" else _ACTIONS[kind]


def _escaped(text: str) -> str:
    for char in "\\[]:":
        text = text.replace(char, f"\\{char}")
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
