"""``zerosys show``: the policy and the CPUs that this shell gives its commands."""

from __future__ import annotations

import argparse
import sys

from zerosys.cli.usage import EXITS, Help, Parser


def parser(prog: str) -> argparse.ArgumentParser:
    """The command's arguments."""
    made = Parser(
        prog=prog,
        description="Tell the memory policy and the CPUs that this process was given, in the words of"
        " numactl --show, with names for what numactl prints as numbers.",
        epilog=EXITS,
        formatter_class=Help,
    )
    made.add_argument("--json", action="store_true", help="print it as JSON (docs/schemas/show.json)")
    return made


def main(argv: list[str], prog: str) -> int:
    """Print it; return 0."""
    chosen = parser(prog).parse_args(argv)
    from zerosys.cli.numactl import telling

    if chosen.json:
        print(_json())
    elif telling.has_numa():
        sys.stdout.write(telling.show(exact=False))
    else:
        sys.stdout.write("policy: none: this kernel has no NUMA calls, or a filter refuses them\n")
        sys.stdout.write(telling.show_cpus())
    return 0


def _json() -> str:
    import json
    import os

    from zerosys import _numa
    from zerosys.cli.numactl import telling
    from zerosys.machine import topology

    machine = topology()
    policy: dict[str, object] | None = None
    if telling.has_numa():
        mode, members = _numa.get_mempolicy()
        name, *flags = telling.full_name(mode).split()
        policy = {"mode": name, "flags": flags, "nodes": sorted(members)}
        if mode in (_numa.MPOL_INTERLEAVE, _numa.MPOL_WEIGHTED_INTERLEAVE):
            policy["next"] = _numa.next_node()
    cpus = os.sched_getaffinity(0)
    bound = [id for id, node in sorted(machine.nodes.items()) if node.online_cpus & cpus]
    return json.dumps(
        {
            "policy": policy,
            "cpus": sorted(cpus),
            "cpu_nodes": bound,
            "memory_nodes": sorted(machine.allowed_nodes),
        },
        indent=2,
    )
