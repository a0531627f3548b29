"""Meet by name: two processes that share nothing but a word, and what a killed one leaves behind.

python examples/named_region.py
"""

import os
import subprocess
import sys

from zerosys import SharedRegion

NAME = f"zerosys-example-{os.getpid()}"

PRODUCER = """
import sys
from zerosys import SharedRegion

region = SharedRegion.create("8MiB", name=sys.argv[1])  # whole before anybody can see it
region.array("i8")[:] = range(1 << 20)
print("ready", flush=True)
sys.stdin.read()
"""
COLLECT = [sys.executable, "-m", "zerosys", "region", "gc", "--dry-run"]


def orphaned() -> bool:
    """Whether `zerosys region gc` would remove our name (with --yes, it does)."""
    return NAME in subprocess.run(COLLECT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PRODUCER, NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as producer:
        assert producer.stdout is not None
        assert producer.stdout.readline() == "ready\n"
        with SharedRegion.attach(NAME, timeout=10) as region:
            numbers = region.array("i8")
            total = int(numbers.sum())
            assert total == (1 << 19) * ((1 << 20) - 1)

            producer.kill()
            producer.wait()
            assert int(numbers.sum()) == total and not orphaned()
            print(
                f"process {producer.pid} is dead, and process {os.getpid()} still reads its sum of {total:,}"
            )
            del numbers

    assert orphaned()
    subprocess.run([sys.executable, "-m", "zerosys", "region", "rm", NAME], check=True)
    assert not os.path.exists(f"/dev/shm/{NAME}")
    print("nobody had it any more: gc found it, and rm removed it")


if __name__ == "__main__":
    main()
