"""The layer rule of the house, read from the imports and cimports of a package.

Imports go only down; within a layer they form no cycle; the three halls of layer 3
never import one another. A cimport is an import, and so is one inside a function.
"""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# A module's layer is that of the first part of its name below the package.
LAYERS = [
    set(names.split())
    for names in (
        """
        _result _args
        _splice
        _descriptor _rights
        _memfd _range _populate _mmap _loan _dlpack _buckets
        _numa
        _nonblock _transfer _relay _steps _fanout _lend _zerocopy
        _ring _ring_reader _ring_writer _atomics
        _exec _sysv _slots
        _ring _ring_end _ring_reader _ring_writer _ring_items _ring_messages
        _atomics
        """,
        """
        flags errors sizes refusal extent
        record sysfs hmat hugepages
        nodes machine selection affinity policy
        locality devices routes gpus visible nvml cuda_driver trail
        numa_maps whereabouts moving migration weights homing abilities
        limits cgroups locking timeouts
        attached logout extant pinned
        """,
        """
        region handle window
        backing filling proof arrays
        names wish owned shared_memory segments
        """,
        "ring pumps cuda",
        "doctor cli __main__",
    )
]
LAYER = {name: number for number, layer in enumerate(LAYERS) for name in layer}
HALLS = LAYERS[3]
# Layer 0 stands on these two and C. What else one of its modules takes from another is written down
# here: the parts that a large one was split into.
GROUND = {"_result", "_args"}
TAKES = {
    "_buckets": {"_mmap"},
    "_fanout": {"_nonblock", "_transfer"},
    "_lend": {"_splice", "_transfer"},
    "_mmap": {"_memfd", "_range", "_populate"},
    "_populate": {"_range"},
    "_relay": {"_transfer"},
    "_rights": {"_descriptor"},
    "_ring_end": {"_ring"},
    "_ring_items": {"_ring", "_ring_end", "_ring_reader", "_ring_writer"},
    "_ring_messages": {"_ring", "_ring_end", "_ring_reader", "_ring_writer"},
    "_ring_reader": {"_ring", "_ring_end"},
    "_ring_writer": {"_ring", "_ring_end"},
    "_steps": {"_nonblock", "_splice", "_transfer"},
    "_sysv": {"_populate", "_range"},
    "_transfer": {"_nonblock"},
}

_FROM = re.compile(r"^\s*from\s+([\w.]+)\s+c?import\s+(\([^)]*\)|[^\n#]*)", re.MULTILINE)
_PLAIN = re.compile(r"^\s*c?import\s+([\w., ]+)", re.MULTILINE)


def _python_imports(text: str) -> list[tuple[str, list[str]]]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found.append(("." * node.level + (node.module or ""), [alias.name for alias in node.names]))
        elif isinstance(node, ast.Import):
            found += [(alias.name, []) for alias in node.names]
    return found


def _cython_imports(text: str) -> list[tuple[str, list[str]]]:
    text = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    found = [(module, re.findall(r"\w+", names)) for module, names in _FROM.findall(text)]
    for names in _PLAIN.findall(text):
        found += [(name.split()[0], []) for name in names.split(",")]
    return found


def _absolute(module: str, package: list[str]) -> list[str]:
    """The parts of *module*, a name as it is written in *package*."""
    dots = len(module) - len(module.lstrip("."))
    parts = [part for part in module.split(".") if part]
    return package[: len(package) - dots + 1] + parts if dots else parts


def imports_of(file: Path, root: Path) -> set[str]:
    """The modules of the package at *root* that *file* imports, as dotted names below it."""
    read = _python_imports if file.suffix in (".py", ".pyi") else _cython_imports
    package = [root.name, *file.relative_to(root).parent.parts]
    found = set()
    for module, names in read(file.read_text()):
        base = _absolute(module, package)
        if base[:1] != [root.name]:
            continue
        # `from package import x` means the module x where there is one.
        targets = [[*base, name] for name in names if _is_module(root.parent.joinpath(*base, name))] or [base]
        found |= {".".join(target[1:]) for target in targets if len(target) > 1}
    return found


def _is_module(path: Path) -> bool:
    return path.is_dir() or any(path.with_suffix(end).exists() for end in (".py", ".pyx", ".pxd"))


def module_of(file: Path, root: Path) -> str:
    parts = list(file.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def graph_of(root: Path) -> dict[str, set[str]]:
    """What each module of the package at *root* imports; `.pyx` and `.pxd` count as one module."""
    graph: dict[str, set[str]] = {}
    for file in sorted(root.rglob("*")):
        if file.suffix in (".py", ".pyx", ".pxd") and file != root / "__init__.py":
            module = module_of(file, root)
            graph.setdefault(module, set()).update(imports_of(file, root) - {module})
    return graph


def violations(root: Path) -> list[str]:
    """A sentence for each import of the package at *root* that breaks the rule."""
    graph = graph_of(root)
    wrong = []
    for module, imported in sorted(graph.items()):
        here = module.split(".")[0]
        if here not in LAYER:
            wrong.append(f"{module} is in no layer: add it to tests/layers.py")
            continue
        for target in sorted(imported):
            there = target.split(".")[0]
            if LAYER.get(there, 99) > LAYER[here]:
                wrong.append(f"{module} imports {target}, which is in a higher layer")
            elif LAYER[here] == 0 and there not in GROUND | TAKES.get(here, set()):
                wrong.append(
                    f"{module} imports {target}: layer 0 stands on {' and '.join(sorted(GROUND))} alone"
                )
            elif here in HALLS and there in HALLS and here != there:
                wrong.append(f"{module} imports {target}: the halls of layer 3 meet in layer 4")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        wrong.append(f"imports go round: {' -> '.join(cycle.args[1])}")
    return wrong
