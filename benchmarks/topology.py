"""How long does topology() take, here and of a machine with 64 nodes?

Figures are milliseconds. The 64-node machine is the one recorded among the trees of ZEROSYS_DATA, unpacked;
without those one of the same shape, written for the run. Beside it what `numactl --hardware` takes here,
start of the process included.
"""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import Bar, Row, main
from zerosys import topology

RECORDED = "256ia64-64n2s2c"


def reading(root: str | Path, nodes: int) -> Callable[[], float]:
    def measure() -> float:
        start = time.perf_counter()
        machine = topology(root)
        took = time.perf_counter() - start
        if len(machine.nodes) != nodes or not all(node.distances for node in machine.nodes.values()):
            raise AssertionError(f"{len(machine.nodes)} nodes read of {nodes}, or one without distances")
        return took * 1e3

    return measure


def numactl() -> float:
    start = time.perf_counter()
    done = subprocess.run(["numactl", "--hardware"], capture_output=True, text=True)
    took = time.perf_counter() - start
    if "node distances" not in done.stdout:
        raise AssertionError(done.stdout + done.stderr)
    return took * 1e3


def recorded(into: Path) -> Path | None:
    """The recorded machine's root, unpacked; None where there are no recordings."""
    data = os.environ.get("ZEROSYS_DATA")
    archive = Path(data, "sysfs-trees", f"{RECORDED}.tar.bz2") if data else None
    if archive is None or not archive.exists():
        return None
    with tarfile.open(archive) as tree:
        tree.extractall(into, members=[member for member in tree if member.isfile()], filter="data")
    return into / json.loads((archive.parent / "expected.json").read_text())[RECORDED]["root"]


def written(into: Path, nodes: int = 64) -> Path:
    """A machine of *nodes* nodes of four CPUs each."""
    system = into / "sys/devices/system"
    (system / "cpu").mkdir(parents=True)
    (system / "cpu/online").write_text(f"0-{4 * nodes - 1}\n")
    for id in range(nodes):
        folder = system / f"node/node{id}"
        pool = folder / "hugepages/hugepages-2048kB"
        pool.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{4 * id}-{4 * id + 3}\n")
        sizes = [f"Node {id} {name}: 1000 kB\n" for name in ("MemTotal", "MemFree")]
        (folder / "meminfo").write_text("".join(sizes))
        (folder / "distance").write_text(" ".join("10" if id == other else "21" for other in range(nodes)))
        for name in ("nr", "free", "surplus"):
            (pool / f"{name}_hugepages").write_text("0\n")
    return into


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    with tempfile.TemporaryDirectory(prefix="zerosys-bench-") as folder:
        tree = recorded(Path(folder)) or written(Path(folder))
        rows = [
            Row("topology(), here", reading("/", len(topology().nodes))),
            Row("topology(64 nodes)", reading(tree, 64)),
        ]
        if shutil.which("numactl"):
            rows.append(Row("numactl --hardware, here", numactl))
        yield (
            rows,
            [
                Bar("topology(), here", None, plus=3.0),
                Bar("topology(64 nodes)", None, plus=60.0),
            ],
        )


if __name__ == "__main__":
    main("topology", "ms", build, slices=10)
