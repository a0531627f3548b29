"""``zerosys hardware``: the machine's nodes, in numactl's words, as a heat map, or as JSON."""

from __future__ import annotations

import argparse
import os
import sys

from zerosys import nodes
from zerosys.cli.numactl.telling import hardware
from zerosys.cli.usage import EXITS, Help, Parser
from zerosys.machine import Node, Topology, topology

# From near to far: backgrounds of the 256-colour palette, each with ink that can be read on it.
_HEAT = ((22, 231), (28, 231), (64, 231), (100, 231), (136, 16), (172, 16), (166, 16), (160, 231), (124, 231))

_BALANCING = {
    True: "on: the kernel moves pages towards those who use them",
    False: "off: pages stay where they are",
    None: "this kernel has none",
}


def parser(prog: str) -> argparse.ArgumentParser:
    """The command's arguments."""
    made = Parser(
        prog=prog,
        description="Tell the nodes, their CPUs and memory, and the distances between them, as numactl"
        " --hardware does. On a terminal with colours, distances are a heat map.",
        epilog=EXITS,
        formatter_class=Help,
    )
    made.add_argument("--cpu-compress", action="store_true", help="CPUs as ranges, and how many")
    made.add_argument(
        "--more",
        action="store_true",
        help="also kinds of nodes, huge pages, bandwidth and latency, tiers, and whether NUMA is balanced",
    )
    made.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour the distances (default: where the terminal has colour and NO_COLOR is not set)",
    )
    made.add_argument("--json", action="store_true", help="print it as JSON (docs/schemas/hardware.json)")
    made.add_argument(
        "--root",
        default="/",
        metavar="FOLDER",
        help="read a recorded machine: FOLDER has its sys and proc (default: %(default)s)",
    )
    return made


def main(argv: list[str], prog: str) -> int:
    """Print it; return 0. A machine without NUMA is one node."""
    chosen = parser(prog).parse_args(argv)
    machine = topology(chosen.root)
    if chosen.json:
        print(as_json(machine))
        return 0
    paint = Heat(machine).paint if coloured(chosen.color) else None
    sys.stdout.write(hardware(machine, chosen.cpu_compress, paint))
    if chosen.more:
        sys.stdout.write("".join(_more(node) for _, node in sorted(machine.nodes.items())))
        sys.stdout.write(f"balancing: {_BALANCING[machine.balancing]}\n")
    return 0


def coloured(wish: str) -> bool:
    """Whether to colour, for a wish of "auto", "always" or "never"."""
    if wish != "auto":
        return wish == "always"
    dull = os.environ.get("TERM", "dumb") == "dumb" or os.environ.get("NO_COLOR")
    return sys.stdout.isatty() and not dull


class Heat:
    """Colours of distances: the nearest of the machine is green, the farthest red."""

    def __init__(self, machine: Topology) -> None:
        told = {distance for node in machine.nodes.values() for distance in node.distances.values()}
        self._near, self._far = min(told, default=10), max(told, default=10)

    def paint(self, distance: int, cell: str) -> str:
        span = max(self._far - self._near, 1)
        step = round((distance - self._near) / span * (len(_HEAT) - 1))
        ground, ink = _HEAT[min(max(step, 0), len(_HEAT) - 1)]
        return f"\x1b[48;5;{ground};38;5;{ink}m{cell}\x1b[0m"


def _more(node: Node) -> str:
    """Lines in numactl's manner about what it does not tell."""
    lines = [f"node {node.id} kind: {node.kind}{f' ({node.medium})' if node.medium else ''}\n"]
    lines.append(f"node {node.id} available: {node.memory_available >> 20} MB\n")
    for size, (total, free) in sorted(node.huge_pages.items()):
        lines.append(f"node {node.id} hugepages {size >> 10}kB: {free} of {total} free\n")
    if node.tier is not None:
        lines.append(f"node {node.id} tier: {node.tier}\n")
    for number, access in sorted(node.access.items()):
        told = [f"{name} {value}" for name, value in sorted(access.fields().items()) if _is_figure(value)]
        near = nodes.format(access.initiators)
        lines.append(f"node {node.id} access{number} from node {near or '-'}: {', '.join(told)}\n")
    return "".join(lines)


def _is_figure(value: object) -> bool:
    return isinstance(value, int)


def as_json(machine: Topology) -> str:
    """The machine as docs/schemas/hardware.json describes it."""
    import json

    return json.dumps(
        {
            "numa": machine.available,
            "balancing": machine.balancing,
            "online_cpus": sorted(machine.online_cpus),
            "allowed_cpus": sorted(machine.allowed_cpus),
            "allowed_nodes": sorted(machine.allowed_nodes),
            "nodes": [_node(node) for _, node in sorted(machine.nodes.items())],
        },
        indent=2,
    )


def _node(node: Node) -> dict[str, object]:
    return {
        "id": node.id,
        "kind": node.kind,
        "medium": node.medium,
        "device": node.device.address if node.device else None,
        "cpus": sorted(node.cpus),
        "online_cpus": sorted(node.online_cpus),
        "allowed": node.allowed,
        "memory": {
            "total": node.memory_total,
            "free": node.memory_free,
            "available": node.memory_available,
        },
        "huge_pages": [
            {"size": size, "total": total, "free": free}
            for size, (total, free) in sorted(node.huge_pages.items())
        ],
        "distances": {str(other): distance for other, distance in sorted(node.distances.items())},
        "tier": node.tier,
        "access": {
            str(number): {
                name: sorted(value) if isinstance(value, frozenset) else value
                for name, value in access.fields().items()
            }
            for number, access in sorted(node.access.items())
        },
    }
