"""Ways to hand messages from one process to another: the rings that PyPI has, and ours, behind one face.

A peer is made before the processes part; in each of them one end is opened, the receiving one first. A rival
that is not installed is named by :func:`absent` and left out.
"""

import ctypes
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from multiprocessing import shared_memory
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zerosys import MessageRing, StreamRing

Send = Callable[[bytes], object]  # true: it is in
Receive = Callable[[], Any]  # None: there is nothing yet
Words = NDArray[np.uint64]
Put = Callable[[Words], object]  # copy a block in; true: it is in
Take = Callable[[Callable[[Words], int]], "int | None"]  # what was made of the next block, in its place


class Peer:
    """One channel for messages of *size* bytes, of which about *depth* fit."""

    needs: ClassVar[str | None] = None  # the package on PyPI
    module: ClassVar[str] = ""
    largest: ClassVar[int] = 1 << 30

    def __init__(self, size: int, depth: int) -> None:
        self.size, self.depth = size, depth
        self.folder = tempfile.mkdtemp(prefix="zerosys-ring-")
        self.name = f"zsbench{os.getpid()}_{os.path.basename(self.folder)[-8:]}"

    def sender(self) -> Send:
        raise NotImplementedError

    def receiver(self) -> Receive:
        raise NotImplementedError

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Subetha(Peer):
    needs, module, largest = "subetha-ipc", "subetha", 64

    def __init__(self, size: int, depth: int) -> None:
        import subetha

        super().__init__(size, depth)
        self.path = f"{self.folder}/ring"
        self.made = subetha.SpscRing(self.path, depth)

    def sender(self) -> Send:
        import subetha

        self.end = subetha.SpscRing.open(self.path, self.depth)
        return self.end.push

    def receiver(self) -> Receive:
        import subetha

        self.end = subetha.SpscRing.open(self.path, self.depth)
        return self.end.pop

    def many_sender(self) -> Callable[[list[bytes]], int]:
        self.sender()
        return self.end.push_many

    def many_receiver(self) -> Callable[[int], list[bytes]]:
        self.receiver()
        return self.end.pop_many


class Cloudtoid(Peer):
    needs, module = "cloudtoid-interprocess", "cloudtoid_interprocess"

    def _capacity(self) -> int:
        return (self.size + 64) * self.depth // 64 * 64

    def sender(self) -> Send:
        from cloudtoid_interprocess import Publisher

        self.end = Publisher("ring", self._capacity(), self.folder)
        return self.end.try_send

    def receiver(self) -> Receive:
        from cloudtoid_interprocess import Subscriber

        self.end = Subscriber("ring", self._capacity(), self.folder)
        return self.end.try_receive


class Membridge(Peer):
    needs, module = "membridge", "membridge"

    def __init__(self, size: int, depth: int) -> None:
        import membridge

        super().__init__(size, depth)
        data = 1 << ((size + 4) * depth - 1).bit_length()
        self.made = membridge.SharedMemory.create(f"/{self.name}", data + 24)
        self.bytes = data + 24
        self.made.spsc()

    def _ring(self) -> Any:
        import membridge

        self.end = membridge.SharedMemory.open(f"/{self.name}", self.bytes)
        return self.end.spsc()

    def sender(self) -> Send:
        return self._ring().push

    def receiver(self) -> Receive:
        return self._ring().pop

    def close(self) -> None:
        import membridge

        membridge.SharedMemory.remove(f"/{self.name}")
        super().close()


class Kickmsg(Peer):
    needs, module = "kickmsg", "kickmsg"

    def __init__(self, size: int, depth: int) -> None:
        import kickmsg

        super().__init__(size, depth)
        about = kickmsg.Config()
        about.max_subscribers, about.sub_ring_capacity = 1, 1 << (depth - 1).bit_length()
        about.pool_size, about.max_payload_size = 2 * about.sub_ring_capacity, size
        self.made = kickmsg.SharedRegion.create(f"/{self.name}", kickmsg.ChannelType.PubSub, about)

    def _region(self) -> Any:
        import kickmsg

        return kickmsg.SharedRegion.open(f"/{self.name}")

    def sender(self) -> Send:
        import kickmsg

        self.end = kickmsg.Publisher(self._region())
        return self.end.send

    def receiver(self) -> Receive:
        import kickmsg

        self.end = kickmsg.Subscriber(self._region())
        return self.end.try_receive

    def block_sender(self) -> Put:
        self.sender()
        allocate = self.end.allocate

        def put(block: Words) -> object:
            slot = allocate()
            if slot is None:
                return False
            np.copyto(np.frombuffer(slot, np.uint64), block)
            return slot.publish(block.nbytes) > 0

        return put

    def block_receiver(self) -> Take:
        self.receiver()
        receive = self.end.try_receive_view

        def take(use: Callable[[Words], int]) -> int | None:
            view = receive()
            if view is None:
                return None
            with view:
                return use(np.frombuffer(view, np.uint64))

        return take

    def close(self) -> None:
        self.made.unlink()
        super().close()


class Iceoryx2(Peer):
    needs, module = "iceoryx2", "iceoryx2"

    def _service(self) -> Any:
        import iceoryx2

        iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
        self.node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        return (
            self.node.service_builder(iceoryx2.ServiceName.new(self.name))
            .publish_subscribe(iceoryx2.Slice[ctypes.c_uint8])
            .enable_safe_overflow(False)
            .subscriber_max_buffer_size(min(self.depth, 256))
            .open_or_create()
        )

    def _publisher(self) -> Any:
        import iceoryx2

        self.service = self._service()
        self.end = (
            self.service.publisher_builder()
            .initial_max_slice_len(self.size)
            .backpressure_strategy(iceoryx2.BackpressureStrategy.RetryUntilDelivered)
            .create()
        )
        return self.end

    def sender(self) -> Send:
        loan, move, size = self._publisher().loan_slice_uninit, ctypes.memmove, self.size

        def send(message: bytes) -> object:
            sample = loan(size)
            move(sample.payload_ptr, message, size)
            return sample.assume_init().send()

        return send

    def receiver(self) -> Receive:
        self.service = self._service()
        self.end = self.service.subscriber_builder().create()
        receive, string_at, size = self.end.receive, ctypes.string_at, self.size

        def take() -> bytes | None:
            sample = receive()
            if sample is None:
                return None
            message = string_at(sample.payload_ptr, size)
            sample.delete()
            return message

        return take

    def block_sender(self) -> Put:
        loan, size = self._publisher().loan_slice_uninit, self.size
        kind = ctypes.c_uint8 * size

        def put(block: Words) -> object:
            sample = loan(size)
            np.copyto(np.frombuffer(kind.from_address(sample.payload_ptr), np.uint64), block)
            return sample.assume_init().send()

        return put

    def block_receiver(self) -> Take:
        self.receiver()
        receive, kind = self.end.receive, ctypes.c_uint8 * self.size

        def take(use: Callable[[Words], int]) -> int | None:
            sample = receive()
            if sample is None:
                return None
            made = use(np.frombuffer(kind.from_address(sample.payload_ptr), np.uint64))
            sample.delete()
            return made

        return take


class HandRolled(Peer):
    """What people write themselves: slots and two counters in a SharedMemory, nothing ordered."""

    def __init__(self, size: int, depth: int) -> None:
        super().__init__(size, depth)
        self.made = shared_memory.SharedMemory(create=True, size=128 + size * depth)

    def _ends(self) -> tuple[memoryview, memoryview]:
        return self.made.buf[:128].cast("Q"), self.made.buf[128 : 128 + self.size * self.depth]

    def sender(self) -> Send:
        counters, slots = self._ends()
        size, depth, sent = self.size, self.depth, 0

        def send(message: bytes) -> bool:
            nonlocal sent
            if sent - counters[8] == depth:
                return False
            at = sent % depth * size
            slots[at : at + size] = message
            sent += 1
            counters[0] = sent
            return True

        return send

    def receiver(self) -> Receive:
        counters, slots = self._ends()
        size, depth, got = self.size, self.depth, 0

        def take() -> bytes | None:
            nonlocal got
            if counters[0] == got:
                return None
            at = got % depth * size
            message = bytes(slots[at : at + size])
            got += 1
            counters[8] = got
            return message

        return take

    def block_sender(self) -> Put:
        counters, slots = self._ends()
        blocks, depth, sent = np.frombuffer(slots, np.uint64).reshape(self.depth, -1), self.depth, 0

        def put(block: Words) -> bool:
            nonlocal sent
            if sent - counters[8] == depth:
                return False
            np.copyto(blocks[sent % depth], block)
            sent += 1
            counters[0] = sent
            return True

        return put

    def block_receiver(self) -> Take:
        counters, slots = self._ends()
        blocks, depth, got = np.frombuffer(slots, np.uint64).reshape(self.depth, -1), self.depth, 0

        def take(use: Callable[[Words], int]) -> int | None:
            nonlocal got
            if counters[0] == got:
                return None
            made = use(blocks[got % depth])
            got += 1
            counters[8] = got
            return made

        return take

    def close(self) -> None:
        self.made.unlink()
        super().close()


class Zerosys(Peer):
    """Ours, for messages; made in the parent, and inherited."""

    def __init__(self, size: int, depth: int) -> None:
        super().__init__(size, depth)
        self.made = MessageRing.create((size + 16) * depth)

    def sender(self) -> Send:
        self.end = self.made.writer(spin=1.0)
        return self.end.write

    def receiver(self) -> Receive:
        self.got = self.made.reader("oldest", spin=1.0)
        return self.got.read

    def many_sender(self) -> Callable[[list[bytes]], int]:
        self.sender()
        return self.end.write_many

    def many_receiver(self) -> Callable[[int], list[bytes]]:
        self.receiver()
        return self.got.read_many

    def close(self) -> None:
        self.made.close()
        super().close()


class ZerosysRecords(Peer):
    """Ours, for records of a fixed size: whole arrays in, windows out."""

    def __init__(self, size: int, depth: int) -> None:
        super().__init__(size, depth)
        self.made = StreamRing.create(size * depth, np.dtype((np.void, size)))

    def array_sender(self) -> Any:
        self.end = self.made.writer(spin=1.0)
        return self.end.write

    def array_receiver(self) -> Any:
        self.got = self.made.reader("oldest", spin=1.0)
        return self.got.peek_some

    def close(self) -> None:
        self.made.close()
        super().close()


class ZerosysBlocks(Peer):
    """Ours, for blocks of words: windows that are filled, and looked into, as numpy arrays."""

    limit: ClassVar[str | None] = None

    def __init__(self, size: int, depth: int) -> None:
        super().__init__(size, depth)
        self.made = StreamRing.create(size * depth, "u8", fill_limit=self.limit)

    def block_sender(self) -> Put:
        self.end = self.made.writer(spin=1.0)
        claim, words = self.end.claim, self.size // 8

        def put(block: Words) -> object:
            with claim(words) as window:
                np.copyto(window.array, block)
            return True

        return put

    def block_receiver(self) -> Take:
        self.got = self.made.reader("oldest", spin=1.0)
        peek, words = self.got.try_peek, self.size // 8

        def take(use: Callable[[Words], int]) -> int | None:
            window = peek(words)
            if window is None:
                return None
            with window:
                return use(window.array)

        return take

    def close(self) -> None:
        self.made.close()
        super().close()


class ZerosysShallow(ZerosysBlocks):
    """The same with at most 8 MiB in a ring that could hold it all."""

    limit = "8MiB"


RIVALS: dict[str, type[Peer]] = {
    "subetha": Subetha,
    "cloudtoid": Cloudtoid,
    "membridge": Membridge,
    "kickmsg": Kickmsg,
    "iceoryx2": Iceoryx2,
    "shared_memory by hand": HandRolled,
}


def present(names: list[str]) -> dict[str, type[Peer]]:
    """Those of the rivals *names* that are installed here; the others are said to be missing."""
    found = {}
    for name in names:
        kind = RIVALS[name]
        if kind.needs and importlib.util.find_spec(kind.module) is None:
            print(f"NOT MEASURED: {name} ({kind.needs} is not installed: ./dev bench installs it)")
        else:
            found[name] = kind
    return found
