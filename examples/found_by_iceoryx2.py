"""Memory that is found: an iceoryx2 service tells what is offered, and the region is attached by that name.

python examples/found_by_iceoryx2.py

zerosys has no discovery; iceoryx2 has. What crosses its service is 64 bytes, the region stays where it lies.
Who comes late gets the last offer too. Needs iceoryx2.
"""

import ctypes
import multiprocessing
import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import zerosys

if TYPE_CHECKING:
    import iceoryx2


class Offer(ctypes.Structure):
    """What the service carries: the name of a region."""

    _fields_ = (("name", ctypes.c_char * 64),)


def cameras() -> "tuple[iceoryx2.Node, iceoryx2.PortFactoryPublishSubscribe]":
    """Join the service; it lives as long as the node."""
    import iceoryx2

    iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
    node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
    builder = node.service_builder(iceoryx2.ServiceName.new(f"cameras/{os.getuid()}"))
    return node, builder.publish_subscribe(Offer).history_size(1).open_or_create()


def consume() -> None:
    """A process that knows the service and nothing else."""
    _node, service = cameras()
    subscriber = service.subscriber_builder().create()
    deadline = time.monotonic() + 30
    while (sample := subscriber.receive()) is None:
        assert time.monotonic() < deadline, "nobody offers anything"
        time.sleep(0.01)
    name = sample.payload().contents.name.decode()
    sample.delete()
    with zerosys.SharedRegion.attach(name, timeout=5) as frame:
        print(f"found {name}: {frame.size:,} bytes, {int(frame.array('u1').sum()):,} of them set", flush=True)


def main() -> None:
    if find_spec("iceoryx2") is None:
        print("no iceoryx2 here: pip install iceoryx2")
        return
    _node, service = cameras()
    publisher = service.publisher_builder().create()
    with zerosys.SharedRegion.create("1MiB", name=f"front-{os.getpid()}") as frame:
        frame.array("u1")[::2] = 1
        publisher.send_copy(Offer(str(frame.name).encode()))
        consumer = multiprocessing.get_context("spawn").Process(target=consume)
        consumer.start()  # comes after the offer
        while consumer.is_alive():
            publisher.update_connections()  # gives newcomers the last offer
            consumer.join(0.01)
        frame.unlink()
    assert consumer.exitcode == 0


if __name__ == "__main__":
    main()
