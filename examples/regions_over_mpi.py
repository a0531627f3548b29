"""Memory that lies right, on two hosts: MPI carries bytes from one host's region straight into the other's.

    mpiexec -n 2 -hosts one,two python regions_over_mpi.py

Alone it starts two ranks here. MPI takes a region as it takes any buffer: a window for one-sided
access, and messages, both without a staging copy of ours. Needs mpi4py and an MPI.
"""

import os
import shutil
import sys
import sysconfig

import zerosys

SIZE = "8MiB"


def work() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    with zerosys.SharedRegion.create(SIZE, node=min(zerosys.topology().allowed_nodes)) as region:
        values = region.array("f8", (-1,))
        window = MPI.Win.Create(values, comm=world)
        if world.rank == 0:
            values[:] = range(len(values))
            window.Lock(1)
            window.Put(values, 1)  # one-sided: rank 1 does nothing for it
            window.Unlock(1)
        world.Barrier()
        if world.rank == 1:
            window.Lock(1)
            right = values[-1] == len(values) - 1 and values.sum() == len(values) * (len(values) - 1) / 2
            window.Unlock(1)
            assert right and region.verify().ok
            where = dict(region.placement().nodes)
            print(f"rank 1: {region.size} bytes arrived in its own region, pages by node {where}", flush=True)
            world.Send(values, 0)  # and back, as a message
        elif world.rank == 0:
            values[:] = 0
            world.Recv(values, 1)
            assert values[-1] == len(values) - 1
        window.Free()


def launch() -> None:
    """Run this file under mpiexec: two ranks."""
    mpiexec = shutil.which("mpiexec", path=f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}")
    if mpiexec is None:
        print("no mpiexec here: pip install mpi4py mpich")
        return
    os.execv(mpiexec, [mpiexec, "-n", "2", sys.executable, *sys.argv])


if __name__ == "__main__":
    if {"PMI_RANK", "OMPI_COMM_WORLD_RANK"} & os.environ.keys():
        work()
    else:
        launch()
