"""How a sample is shown: tables for people, with colour where rich is installed, or JSON."""

from __future__ import annotations

import time

from zerosys.cli.stat.report import mib, owner_name
from zerosys.cli.table import plain, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from zerosys.cli.top.sample import NodeSample, Sample
    from zerosys.cli.top.screen import Paper

_SHOWN = {
    "HIT": "numa_hit",
    "MISS": "numa_miss",
    "FOREIGN": "numa_foreign",
    "LOCAL": "local_node",
    "OTHER": "other_node",
}
_NOTHING = ("0", "0.0", "-")
_MEMORY = ("NODE", "TOTAL", "USED", "FREE", "FILES", "ANON")


def as_dict(sample: Sample) -> dict[str, object]:
    """*sample* as docs/schemas/top.json has it: sizes in bytes, counters in pages, rates in pages/s."""
    return {
        "time": sample.time,
        "seconds": sample.seconds,
        "nodes": [
            {
                "node": one.node,
                "memory_total": one.total,
                "memory_free": one.free,
                "files": one.files,
                "anonymous": one.anonymous,
                "counters": one.counters,
                "rates": sample.rates.get(one.node),
            }
            for one in sample.nodes
        ],
        "processes": [
            {
                "pid": one.pid,
                "command": one.name,
                "uid": one.uid,
                "bytes": one.bytes,
                "nodes": {str(node): size for node, size in sorted(one.nodes.items())},
            }
            for one in sample.processes
        ],
        "unread": sample.unread,
    }


def text(sample: Sample, screen: Paper) -> str:
    """*sample* as a heading and two tables."""
    unit = "pages since boot" if sample.seconds is None else f"pages/s over {sample.seconds:.1f} s"
    heading = f"zerosys top  {time.strftime('%H:%M:%S', time.localtime(sample.time))}  MiB, {unit}"
    layout = _coloured if screen.colours and _has_rich() else _columns
    head, rows = _nodes(sample)
    parts = [heading, "", layout(head, rows, head)]
    if sample.processes:
        head, rows = _processes(sample)
        parts += ["", layout(head, rows, [*head[:1], *head[3:]])]
    if sample.unread:
        parts.append(f"{sample.unread} more may not be looked into: that takes CAP_SYS_PTRACE")
    return "\n".join(parts)


def _nodes(sample: Sample) -> tuple[list[str], list[list[str]]]:
    return [*_MEMORY, *_SHOWN], [_node(one, sample) for one in sample.nodes]


def _node(one: NodeSample, sample: Sample) -> list[str]:
    counts = sample.rates.get(one.node, {}) if sample.rates else one.counters
    memory = (one.total, one.total - one.free, one.free, one.files, one.anonymous)
    told = [f"{counts[name]:.0f}" if name in counts else "-" for name in _SHOWN.values()]
    return [str(one.node), *map(mib, memory), *told]


def _processes(sample: Sample) -> tuple[list[str], list[list[str]]]:
    nodes = [one.node for one in sample.nodes]
    rows = [
        [
            str(one.pid),
            owner_name(one.uid),
            plain(one.name),
            mib(one.bytes),
            *(mib(one.nodes[node]) if node in one.nodes else "-" for node in nodes),
        ]
        for one in sample.processes
    ]
    return ["PID", "USER", "COMMAND", "MEMORY", *(f"N{node}" for node in nodes)], rows


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> str:
    return table(head, rows, right=" ".join(right))


def _has_rich() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None


def _coloured(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> str:
    """The table by rich: heads in colour, and what is nothing dim."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold cyan")
    for name in head:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        made.add_row(
            escape(row[0]), *(f"[dim]{cell}[/dim]" if cell in _NOTHING else escape(cell) for cell in row[1:])
        )
    width = max(map(len, _columns(head, rows, right).split("\n")))
    console = Console(force_terminal=True, width=width)
    with console.capture() as capture:
        console.print(made)
    return capture.get().rstrip("\n")
