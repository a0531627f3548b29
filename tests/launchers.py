"""Command lines as launchers of one process a rank build them from what ``numactl --hardware`` prints."""

from collections.abc import Iterator

from zerosys.nodes import format


def cpus_of_nodes(hardware: str) -> list[list[int]]:
    """The CPUs of each node, taken out of numactl's output as scripts do it: by words between blanks."""
    lines = hardware.split("\n")
    (count,) = [int(line.split(" ")[1]) for line in lines if line.startswith("available:")]
    return [
        [int(word) for word in line.split(" ")[3:]]
        for node in range(count)
        for line in lines
        if line.startswith(f"node {node} cpus:")
    ]


def rank_lines(hardware: str, ranks: int) -> Iterator[list[str]]:
    """For each rank its share of the CPUs, and memory on their node, or preferred on one without CPUs."""
    nodes = cpus_of_nodes(hardware)
    cpus = sorted(cpu for node in nodes for cpu in node)
    bare = [number for number, node in enumerate(nodes) if not node]
    share = len(cpus) // ranks
    for rank in range(ranks):
        mine = cpus[share * rank : share * (rank + 1)]
        homes = [number for number, node in enumerate(nodes) if set(mine) <= set(node)]
        yield [*(["-m", str(homes[0])] if homes else []), "-C", format(mine)]
        yield ["-C", ",".join(map(str, mine)), *(["-m", ",".join(map(str, homes))] if homes else [])]
        if bare:
            yield ["-p", str(bare[0]), "-C", format(mine)]
