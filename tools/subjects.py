"""Write the site's pages of every public name by subject, with the whole text of its docstring."""

import enum
import importlib
import inspect
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import ForwardRef

import zerosys

_HOME: dict[str, str] = vars(zerosys)["_HOME"]

# Each page: its title, the modules that zerosys's own names on it come from, those that are called by name.
SUBJECTS: dict[str, tuple[str, list[str], list[str]]] = {
    "thin-calls": ("Thin calls", ["_splice", "_memfd", "_mmap", "flags"], []),
    "numa": (
        "NUMA: the machine, policies, looking and moving",
        [
            *("machine", "hmat", "locality", "selection", "policy", "affinity", "homing", "weights"),
            *("whereabouts", "numa_maps", "migration", "moving"),
        ],
        ["zerosys.hugepages"],
    ),
    "regions": (
        "Regions, and what crosses to other processes",
        ["region", "backing", "proof", "limits", "handle"],
        ["zerosys.handle", "zerosys.shared_memory"],
    ),
    "rings": (
        "Rings",
        ["ring.stream", "ring.message", "_ring"],
        ["zerosys.ring", "zerosys.ring.recording", "zerosys.ring.playing", "zerosys.ring.samples"],
    ),
    "pumps": ("Pumps", ["pumps"], ["zerosys.pumps.aio"]),
    "gpu": ("Memory for a GPU", [], ["zerosys.cuda", "zerosys.cuda.storage"]),
    "errors": ("Errors", ["errors"], []),
}
# What no page above has: whatever is new, and small things.
REST = ("asking", "Asking what works", ["zerosys.doctor"])


# Methods that layer 0 has for the layers above, and nobody else is to call.
PLUMBING = {
    *("counters", "drop_control", "leave_control", "look", "next_now", "owners", "read_slowly", "tell_dead")
}


def named(value: object) -> str:
    """An annotation as a reader writes it: text without quotation marks, a class by its name."""
    if isinstance(value, ForwardRef):
        value = value.__forward_arg__
    if isinstance(value, str):
        return value
    return value.__name__ if isinstance(value, type) else str(value)


def shown(parameter: inspect.Parameter) -> str:
    text = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "") + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {named(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = oct(parameter.default) if parameter.name == "mode" else repr(parameter.default)
        text += f" = {default}" if ":" in text else f"={default}"
    return text


def call(name: str, value: object) -> str:
    """*name*, and how it is called where it tells."""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    parts, kinds = [], [one.kind for one in signature.parameters.values()]
    for number, one in enumerate(signature.parameters.values()):
        if one.name in ("self", "cls") and not number:
            continue
        before = kinds[number - 1] if number else None
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            parts.append("*")
        parts.append(shown(one))
    result = (
        "" if signature.return_annotation is signature.empty else f" -> {named(signature.return_annotation)}"
    )
    line = f"{name}({', '.join(parts)}){result}"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(parts) + f",\n){result}"


def prose(value: object) -> str:
    """The docstring of *value* as Markdown: no letter outside of code is markup, but for *parameters*."""
    pieces = re.split(r"(``.+?``)", inspect.getdoc(value) or "", flags=re.DOTALL)
    pieces[::2] = [re.sub(r"([\\<\[_|])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


def code(name: str, value: object) -> str:
    """What a reader writes: a call, an error with what it is a kind of, the members of an enumeration."""
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return "\n".join(f"{name}.{one}" for one in value.__members__)
    if inspect.isclass(value) and issubclass(value, Exception):
        return f"{name}({', '.join(base.__name__ for base in value.__bases__)})"
    return call(name, value)


def entry(level: int, name: str, value: object) -> str:
    heading = f"\n{'#' * level} {name.rpartition('.')[2]}\n\n```text\n{code(name, value)}\n```\n"
    return f"{heading}\n{prose(value)}\n" + "".join(members(level + 1, value))


def members(level: int, value: object) -> Iterator[str]:
    """What the objects of a class do, and tell."""
    if not inspect.isclass(value) or issubclass(value, (enum.Enum, Exception)):
        return
    told = []
    for word in sorted(dir(value)):
        member = inspect.getattr_static(value, word)
        maker = next(base for base in value.__mro__ if word in vars(base))
        if (
            word.startswith("_")
            or word in PLUMBING
            or maker.__module__ == "builtins"
            or not inspect.getdoc(member)
        ):
            continue
        if callable(getattr(value, word)):
            yield entry(level, word, getattr(value, word))
        elif inspect.isdatadescriptor(member) and not hasattr(value, "_fields"):
            told.append(f"- `.{word}`: {' '.join(prose(member).split())}\n")
    if told:
        yield f"\n{'#' * level} Attributes\n\n" + "".join(told)


def public(module: str) -> dict[str, object]:
    """The public names of *module* that are its own, or that it lists."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or [
        word
        for word, value in vars(loaded).items()
        if not word.startswith("_") and getattr(value, "__module__", "") == module
    ]
    found = {f"{module}.{word}": getattr(loaded, word) for word in names}
    return {
        name: value for name, value in found.items() if inspect.isroutine(value) or inspect.isclass(value)
    }


def own(homes: Collection[str]) -> dict[str, object]:
    """zerosys's own names that come from *homes*; "" is zerosys itself."""
    return {
        f"zerosys.{name}": getattr(zerosys, name)
        for name in zerosys.__all__
        if name not in vars(zerosys)["_MODULES"] and name != "__version__" and _HOME.get(name, "") in homes
    }


def page(title: str, names: dict[str, object], modules: list[str]) -> str:
    """One page: zerosys's own names, then those of modules that are called by name."""
    parts = [f"# {title}\n\nMade from the docstrings.\n"]
    shown_already = {id(value) for value in names.values()}
    for name, value in sorted(names.items(), key=lambda item: (item[0].lower(), item[0])):
        parts.append(entry(2, name, value))
    for module in modules:
        parts.append(f"\n## {module}\n\n{prose(importlib.import_module(module))}\n")
        for name, value in sorted(public(module).items(), key=lambda item: (item[0].lower(), item[0])):
            if id(value) not in shown_already:
                parts.append(entry(3, name, value))
    return "".join(parts)


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    made = {
        f"{subject}.md": page(title, own(homes), modules)
        for subject, (title, homes, modules) in SUBJECTS.items()
    }
    homes = {home for _, homes, _ in SUBJECTS.values() for home in homes}
    rest, title, modules = REST
    made[f"{rest}.md"] = page(title, own({"", *_HOME.values()} - homes), modules)
    return made


def write(folder: Path) -> None:
    """Write the pages, where they are not there already as they would be."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        if not (folder / name).is_file() or (folder / name).read_text() != text:
            (folder / name).write_text(text)
