"""Share between processes: a region travels as a Process argument, and both see one memory.

python examples/share_between_processes.py
"""

import multiprocessing as mp
import os

import numpy as np

from zerosys import SharedRegion

COUNT = 1_000_000


def square(region: SharedRegion, answer: "mp.SimpleQueue[tuple[int, int]]") -> None:
    """The child: works in place. What arrived is a mapping of the same pages, not a copy."""
    numbers = region.array("i8")
    numbers *= numbers
    answer.put((os.getpid(), os.fstat(region.fileno()).st_ino))


def main() -> None:
    context = mp.get_context("spawn")
    answer = context.SimpleQueue()
    with SharedRegion.create(8 * COUNT) as region:
        numbers = region.array("i8")
        numbers[:] = np.arange(COUNT)

        child = context.Process(target=square, args=(region, answer))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        pid, inode = answer.get()

        assert pid != os.getpid()
        assert inode == os.fstat(region.fileno()).st_ino
        assert np.array_equal(numbers, np.arange(COUNT) ** 2)
        print(f"process {pid} squared {COUNT:,} numbers in the memory of process {os.getpid()}")
        print(f"both map one file, inode {inode}: {region.backing}")
    # The array is still alive, and that is no error: the memory goes with its last view.


if __name__ == "__main__":
    main()
