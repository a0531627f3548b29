"""Write docs/reference.md: every public name, how it is called, and what its docstring says first."""

import enum
import inspect
from pathlib import Path
from types import ModuleType

import zerosys

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
HEAD = """# Public names

Made by `./dev docs` from the docstrings: a line each. `help(zerosys.splice)` has the whole text, as have the
pages beside this one in the site (`./dev site`). Each name is loaded from `zerosys` when it is first used.
"""


def signature(value: object) -> str:
    """How *value* is called; nothing for what is not callable or does not tell."""
    if not callable(value):
        return ""
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"


def entry(name: str) -> str:
    value = getattr(zerosys, name)
    first = (inspect.getdoc(value) or "").split("\n\n")[0].split("\n")[0]
    return f"- `{name}{signature(value)}`: {first}"


def methods(value: object) -> str:
    """What a class of ours lets its objects do, a line each."""
    if not inspect.isclass(value) or issubclass(value, (enum.Enum, tuple, Exception)):
        return ""
    lines = []
    for word in sorted(dir(value)):
        member = inspect.getattr_static(value, word)
        text = (inspect.getdoc(member) or "").split("\n")[0]
        if (
            word.startswith("_")
            or not text
            or not (callable(getattr(value, word)) or isinstance(member, property))
        ):
            continue
        lines.append(f"  - `.{word}{signature(getattr(value, word))}`: {text}\n")
    return "".join(lines)


def functions(module: ModuleType) -> str:
    """The public functions and classes of a module that is called by its name."""
    own = {word: value for word, value in vars(module).items() if not word.startswith("_")}
    lines = [
        f"- `{module.__name__}.{word}{signature(value)}`: {(inspect.getdoc(value) or '').splitlines()[0]}\n"
        for word, value in sorted(own.items())
        if getattr(value, "__module__", "") == module.__name__ and callable(value) and inspect.getdoc(value)
    ]
    return f"\n## {module.__name__}, by the module's name\n\n" + "".join(lines)


def package(module: ModuleType) -> str:
    """The public names of a package that is called by its name."""
    lines = []
    for name in sorted(module.__all__, key=lambda name: (name.lower(), name)):
        value = getattr(module, name)
        first = (inspect.getdoc(value) or "").split("\n")[0]
        lines.append(f"- `{module.__name__}.{name}{signature(value)}`: {first}\n{methods(value)}")
    return f"\n## {module.__name__}, by the package's name\n\n" + "".join(lines)


def page() -> str:
    """The text of the reference."""
    names = sorted(set(zerosys.__all__) - {"__version__"}, key=lambda name: (name.lower(), name))
    homes: dict[str, list[str]] = {}
    for name in names:
        homes.setdefault(getattr(zerosys, name).__module__, []).append(name)
    parts = [HEAD]
    for home in sorted(homes):
        parts.append(
            f"\n## {home}\n\n"
            + "".join(entry(name) + "\n" + methods(getattr(zerosys, name)) for name in homes[home])
        )
    parts += [functions(getattr(zerosys, name)) for name in zerosys._MODULES if name != "cuda"]
    parts.append(package(zerosys.cuda))
    return "".join(parts)


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page())
    print(f"wrote {TARGET.relative_to(Path.cwd()) if TARGET.is_relative_to(Path.cwd()) else TARGET}")
