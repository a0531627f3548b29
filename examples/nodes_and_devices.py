"""Nodes and devices: what each node is, which is next to a device, and who said so.

python examples/nodes_and_devices.py
"""

import os
from operator import index

from zerosys import PlacementError, node_of, node_set, placement, topology


def main() -> None:
    machine = topology()
    for node in machine.nodes.values():
        print(f"node {node.id}: {node.kind}, {node.memory_available >> 20} MiB to be had, {node.distances}")

    # "all" is what may be used, "+0" the first of it, "!" everything else.
    everything = node_set("all")
    first = node_set("+0")
    assert first == {min(everything)} and everything == machine.all_nodes
    if len(everything) > 1:
        assert node_set("!+0") == everything - first

    for name in sorted(os.listdir("/sys/class/net")):
        if not os.path.isdir(f"/sys/class/net/{name}"):
            continue
        where = node_of(f"netdev:{name}")
        asked = [source.rpartition("/")[2] for source, _ in where.tried]
        if where.node is not None:
            print(f"{name}: node {where.node}, says {where.source}")
            assert index(where) == where.node in machine.nodes
            continue
        print(f"{name}: nobody knows its node (asked: {', '.join(asked)})")
        try:
            index(where)
        except PlacementError as refusal:  # never node 0 by default, and never the last one
            assert "has no node" in str(refusal)

    print("this process has its pages on", placement(os.getpid()).nodes)


if __name__ == "__main__":
    main()
