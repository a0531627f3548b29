"""A pool of Dask workers, one pinned to each NUMA node by `zerosys run`, fed from a region on that node.

Dask moves the tasks; the samples never leave the memory they lie in: a worker attaches the
region of its own node by name and sums it in place. Needs dask's distributed.
"""

import os
import subprocess
import sys
from contextlib import ExitStack

import zerosys


def total(name: str) -> tuple[int, set[int], set[int]]:
    """Runs in a worker: what lies in a region, the nodes that it lies on, and the CPUs it was summed by."""
    with zerosys.SharedRegion.attach(name, timeout=5) as region:
        return int(region.array("u4", (-1,)).sum()), set(region.placement().nodes), os.sched_getaffinity(0)


def main() -> None:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        print("no distributed here: pip install distributed")
        return
    machine = zerosys.topology()
    nodes = sorted(machine.nodes_with_cpus & machine.allowed_nodes)
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(n_workers=0, dashboard_address=None, protocol="tcp://"))
        run = [sys.executable, "-m", "zerosys", "run"]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        worker += ["--no-dashboard", "--nthreads", "1", "--no-nanny", "--death-timeout", "60"]
        for node in nodes:
            command = [*run, "-N", str(node), "-m", str(node), "--", *worker, "--name", f"node{node}"]
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            stack.callback(process.terminate)
        with Client(cluster) as client:
            client.wait_for_workers(len(nodes), timeout=60)
            for node in nodes:
                name = f"samples-{os.getpid()}-{node}"
                with zerosys.SharedRegion.create("8MiB", name=name, node=node) as region:
                    region.array("u4", (-1,))[:] = node + 1
                    asked = client.submit(total, name, workers=[f"node{node}"])
                    answer, where, cpus = asked.result(timeout=60)
                    region.unlink()
                assert (
                    answer == (node + 1) * (2 << 20) and where == {node} and cpus <= machine.nodes[node].cpus
                )
                print(f"the worker on node {node}, CPUs {sorted(cpus)}, summed its region in place: {answer}")


if __name__ == "__main__":
    main()
