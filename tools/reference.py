"""Write docs/reference.md: every public name, how it is called, and what its docstring says first."""

import inspect
from pathlib import Path

import zerosys

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
HEAD = """# Public names

Made by `./dev docs` from the docstrings; `help(zerosys.splice)` has the whole text. Each name is
imported from `zerosys` and loaded when it is first used.
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


def page() -> str:
    """The text of the reference."""
    names = sorted(set(zerosys.__all__) - {"__version__"}, key=lambda name: (name.lower(), name))
    homes: dict[str, list[str]] = {}
    for name in names:
        homes.setdefault(getattr(zerosys, name).__module__, []).append(name)
    parts = [HEAD]
    for home in sorted(homes):
        parts.append(f"\n## {home}\n\n" + "".join(entry(name) + "\n" for name in homes[home]))
    return "".join(parts)


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page())
    print(f"wrote {TARGET.relative_to(Path.cwd()) if TARGET.is_relative_to(Path.cwd()) else TARGET}")
