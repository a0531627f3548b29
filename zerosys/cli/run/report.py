"""A plan, told to people and to programs."""

from __future__ import annotations

import json
import shlex

from zerosys import _numa, nodes
from zerosys.cli.numactl.telling import full_name
from zerosys.cli.run.plan import Plan
from zerosys.cli.table import plain
from zerosys.trail import told


def text(plan: Plan) -> str:
    """A line for each thing that is known of the plan."""
    lines = [("command", plain(shlex.join(plan.command)) or "none")]
    lines.append(("CPUs", "as they are" if plan.cpus is None else nodes.format(plan.cpus)))
    memory = (
        "as it is" if plan.mode is None else f"{full_name(plan.mode)} {nodes.format(plan.members)}".rstrip()
    )
    lines.append(("memory", memory))
    for affinity in plan.near:
        node = "no node" if affinity.node is None else f"node {affinity.node}"
        lines.append((plain(affinity.selector), plain(f"{node}; {told(affinity.tried)}")))
    lines += [("left out", plain(remark)) for remark in plan.remarks]
    width = max(len(head) for head, _ in lines)
    return "\n".join(f"{head:<{width}}  {fact}" for head, fact in lines)


def as_json(plan: Plan) -> str:
    """The plan as docs/schemas/run-plan.json describes it."""
    memory = None
    if plan.mode is not None:
        balancing = bool(plan.mode & _numa.MPOL_F_NUMA_BALANCING)
        bare = plan.mode & ~_numa.MPOL_F_NUMA_BALANCING
        memory = {"policy": full_name(bare), "balancing": balancing, "nodes": sorted(plan.members)}
    return json.dumps(
        {
            "command": plan.command,
            "cpus": None if plan.cpus is None else sorted(plan.cpus),
            "memory": memory,
            "devices": [
                {
                    "asked": affinity.selector,
                    "device": affinity.device,
                    "node": affinity.node,
                    "source": affinity.source or None,
                    "tried": [{"source": source, "answer": answer} for source, answer in affinity.tried],
                }
                for affinity in plan.near
            ],
            "left_out": plan.remarks,
        },
        indent=2,
    )
