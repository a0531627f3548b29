"""The completion script for bash, which needs nothing but bash."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from zerosys.cli.completion.kinds import kind_of
from zerosys.cli.tree import Command

# The tables are functions of "case", so that nothing but one function is called per question.
_CODE = r"""
_zerosys_offer() { # KIND WORDS...: what may stand here, as far as it begins like $cur
    local kind=$1
    shift
    case $kind in
        words) COMPREPLY=($(compgen -W "$*" -- "$cur")) ;;
        file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$cur")) ;;
        folder) compopt -o filenames; COMPREPLY=($(compgen -d -- "$cur")) ;;
        node | cpu) _zerosys_numbers $kind ;;
        pid) COMPREPLY=($(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")) ;;
    esac
}

_zerosys_numbers() { # KIND: the numbers of nodes or CPUs, behind what is there of a list
    local before=${cur%"${cur##*[,!+-]}"} folder found=all
    for folder in /sys/devices/system/$1/$1[0-9]*; do found="$found ${folder##*/$1}"; done
    COMPREPLY=($(compgen -P "$before" -W "$found" -- "${cur#"$before"}"))
    compopt -o nospace
}

_zerosys() {
    local cur=${COMP_WORDS[COMP_CWORD]} path=${COMP_WORDS[0]##*/} word kind n=1
    COMPREPLY=()
    while [ $n -lt $COMP_CWORD ]; do
        word=${COMP_WORDS[n]}
        n=$((n + 1))
        case $word in
            --) break ;;
            -*)
                _zerosys_value "$path" "$word"
                [ -n "$kind" ] || continue
                [ "${COMP_WORDS[n]}" != = ] || n=$((n + 1))
                if [ $n -ge $COMP_CWORD ]; then
                    [ "$cur" != = ] || cur=
                    _zerosys_offer $kind
                    return
                fi
                n=$((n + 1))
                ;;
            *)
                case " $(_zerosys_parts "$path") " in
                    *" $word "*) path="$path $word" ;;
                    *)
                        if [ "$(_zerosys_operand "$path")" = command ]; then
                            _zerosys_command $((n - 1))
                            return
                        fi
                        ;;
                esac
                ;;
        esac
    done
    _zerosys_word
}

_zerosys_word() { # a word of its own: an option, a part of the command, an operand
    case $cur in
        -*) _zerosys_offer words $(_zerosys_options "$path") ;;
        *)
            word=$(_zerosys_parts "$path")
            if [ -n "$word" ]; then
                _zerosys_offer words $word
            elif [ "$(_zerosys_operand "$path")" = command ]; then
                _zerosys_command $COMP_CWORD
            else
                _zerosys_offer $(_zerosys_operand "$path")
            fi
            ;;
    esac
}

_zerosys_command() { # N: a whole command begins at word N
    if [ $1 = $COMP_CWORD ]; then
        COMPREPLY=($(compgen -c -- "$cur"))
    elif declare -F _command_offset >/dev/null; then
        _command_offset $1
    else
        compopt -o filenames
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}
"""


def script(top: Command, tools: list[Command]) -> str:
    """The whole script."""
    commands = [command for root in (top, *tools) for command in root.walk()]
    names = " ".join(["zerosys", *(tool.name for tool in tools)])
    return "".join(
        [
            "# bash completion of zerosys; made by: zerosys completion bash\n",
            _table("_zerosys_parts", ((c.name, " ".join(p.words[-1] for p in c.parts)) for c in commands)),
            _table("_zerosys_options", ((c.name, " ".join(_names(c))) for c in commands)),
            _table("_zerosys_operand", ((c.name, _operand(c)) for c in commands)),
            _values(commands),
            _CODE,
            f"complete -F _zerosys {names}\n",
        ]
    )


def _names(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names]


def _operand(command: Command) -> str:
    if not command.operands:
        return "nothing"
    last = command.operands[-1]
    if last.command:
        return "command"
    kind = kind_of(last.value, last.choices)
    return f"words {' '.join(last.choices)}" if kind == "words" else kind


def _table(function: str, rows: Iterable[tuple[str, str]]) -> str:
    """A function that prints the row of its argument."""
    lines = [f"        {quote(key)}) echo {quote(value)} ;;\n" for key, value in rows if value]
    return f"\n{function}() {{\n    case $1 in\n{''.join(lines)}    esac\n}}\n"


def _values(commands: list[Command]) -> str:
    """A function that sets *kind* to how the value of an option is completed, if it has one."""
    lines = []
    for command in commands:
        for option in command.options:
            if option.value:
                kind = kind_of(option.value, option.choices)
                told = f"words {' '.join(option.choices)}" if kind == "words" else kind
                keys = " | ".join(quote(f"{command.name}:{name}") for name in option.names)
                lines.append(f"        {keys}) kind={quote(told)} ;;\n")
    return f"\n_zerosys_value() {{\n    kind=\n    case $1:$2 in\n{''.join(lines)}    esac\n}}\n"
