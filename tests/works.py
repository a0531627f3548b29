"""The works that test_failure_injection.py walks: each way to make, join, hand on and give back memory."""

import os
import socket
from contextlib import ExitStack, suppress
from typing import ClassVar

import cuda_rig
from failing import Work

from zerosys import cuda, filling, handle, names
from zerosys.region import SharedRegion
from zerosys.ring.message import MessageRing
from zerosys.shared_memory import ShareableList, SharedMemory

NAME = "walked"
PATH = f"{names.SHM}/{NAME}"
PAGE = os.sysconf("SC_PAGESIZE")
BIG = 32 << 20  # populated by threads


def whole(region):
    """The region is what was asked for, and usable."""
    with memoryview(region) as view:
        view[0] = view[-1] = 1
    assert region.resident() >= region.size
    assert region.policy is None or region.verify().ok
    region.close()


# -- create -----------------------------------------------------------------------------------


class Create(Work):
    calls = frozenset({"memfd_create", "fchmod", "ftruncate", "fcntl", "mmap", "madvise"})
    words: ClassVar = {"pages": "base"}
    size = 3 * PAGE

    def prepare(self):
        filling._recent.clear()  # so that the limits are looked for each time

    def work(self):
        return SharedRegion.create(self.size, **self.words)

    def check(self, made):
        if made.name:
            assert os.stat(PATH).st_size == made.size and not names.orphaned(PATH)
            made.unlink()
        whole(made)


class CreateOnANode(Create):
    calls = Create.calls | {"mbind", "get_mempolicy", "move_pages"}
    words: ClassVar = {"pages": "base", "node": 0}


class CreateBigOnANode(Create):
    # The C library makes the other two for its threads, and can do without.
    calls = CreateOnANode.calls - {"mmap", "madvise"}
    words: ClassVar = {"pages": "base", "node": 0}
    size = BIG

    def prepare(self):
        """The limits stay known: they were walked already, and this one is dear."""


class CreateTransparentHuge(CreateBigOnANode):
    calls = Create.calls - {"madvise"}  # of which one is a mere wish
    words: ClassVar = {"pages": "thp"}
    size = 2 << 20


class CreateLocked(CreateBigOnANode):
    calls = Create.calls | {"mlock"}
    words: ClassVar = {"pages": "base", "lock": True}
    size = 3 * PAGE


class CreateHuge(CreateBigOnANode):
    """Needs a pool of pages of 2 MiB, on node 1."""

    calls = CreateOnANode.calls
    words: ClassVar = {"pages": "2M", "node": 1}
    size = 3 << 20


class CreateNamed(Create):
    calls = Create.calls - {"memfd_create", "fcntl"} | {"flock", "linkat"}
    words: ClassVar = {"pages": "base", "name": NAME}


class CreateNamedOnANode(CreateBigOnANode):
    calls = CreateNamed.calls | {"mbind", "get_mempolicy", "move_pages"}
    words: ClassVar = {"name": NAME, "node": 0, "keep": False, "mode": 0o640}
    size = 3 * PAGE


class CreateNamedHuge(CreateHuge):
    """Needs a mount of that pool too, in which nobody else has a name."""

    calls = CreateNamedOnANode.calls
    words: ClassVar = {"pages": "2M", "name": NAME, "node": 1}

    def check(self, made):
        path = names.find(NAME)
        assert os.stat(path).st_size == made.mapped_size and not names.orphaned(path)
        made.unlink()
        whole(made)

    def clear(self):
        assert not os.listdir(names.folder_for(2 << 20))


class CreateDropIn(CreateBigOnANode):
    calls = CreateNamed.calls

    def work(self):
        return SharedMemory(NAME, create=True, size=5000)

    def check(self, made):
        made.buf[0] = made.buf[4999] = 1
        made.close()
        made.unlink()


class CreateList(CreateDropIn):
    def work(self):
        return ShareableList([1, "text", None], name=NAME)

    def check(self, made):
        assert list(made) == [1, "text", None]
        made.shm.close()
        made.shm.unlink()


# -- attach -----------------------------------------------------------------------------------


class AttachByName(Work):
    """The creator has closed its own: whether the name is an orphan afterwards shows every lock."""

    calls = frozenset({"openat", "flock", "mmap", "madvise"})

    def prepare(self):
        with SharedRegion.create(3 * PAGE, pages="base", name=NAME) as region, memoryview(region) as view:
            view[5] = 5

    def work(self):
        return SharedRegion.attach(NAME)

    def check(self, made):
        assert memoryview(made)[5] == 5 and made.name == NAME
        whole(made)

    def clear(self):
        assert names.orphaned(PATH)
        assert os.stat(PATH).st_blocks * 512 == 3 * PAGE
        os.unlink(PATH)


class AttachToRead(AttachByName):
    def work(self):
        return SharedRegion.attach(NAME, read_only=True, timeout=0.001)

    def check(self, made):
        assert memoryview(made)[5] == 5
        made.close()


class AttachDropIn(AttachByName):
    def work(self):
        return SharedMemory(NAME)

    def check(self, made):
        assert made.buf[5] == 5
        made.close()


class AttachAbsent(Work):
    def work(self):
        with suppress(FileNotFoundError):
            SharedRegion.attach(NAME)


class AttachHandle(Work):
    calls = frozenset({"fcntl", "mmap", "madvise"})
    words: ClassVar = {"node": 0}

    def prepare(self):
        self.region = SharedRegion.create(3 * PAGE, **{"pages": "base", **self.words})
        with memoryview(self.region) as view:
            view[5] = 5
        self.handle = self.region.handle()

    def work(self):
        return SharedRegion.attach(self.handle)

    def check(self, made):
        assert memoryview(made)[5] == 5
        whole(made)

    def clear(self):
        whole(self.region)
        self.handle.close()


class AttachDescriptor(AttachHandle):
    def work(self):
        return SharedRegion.attach(self.region.fileno())


class AttachHuge(AttachHandle):
    """Needs a pool of pages of 2 MiB, on node 1."""

    words: ClassVar = {"pages": "2M", "node": 1}


class AttachAndPopulate(AttachHandle):
    words: ClassVar = {"populate_in": "attacher"}

    def prepare(self):
        self.region = SharedRegion.create(3 * PAGE, **{"pages": "base", **self.words})
        self.handle = self.region.handle()

    def check(self, made):
        whole(made)

    def clear(self):
        self.region.close()
        self.handle.close()


# -- hand on ----------------------------------------------------------------------------------


class MakeHandle(AttachHandle):
    calls = frozenset({"openat"})
    words: ClassVar = {}

    def work(self):
        return self.region.handle(read_only=True)

    def check(self, made):
        made.close()


class Send(AttachHandle):
    calls = frozenset({"sendmsg"})
    kind = socket.SOCK_STREAM

    def prepare(self):
        super().prepare()
        self.ends = socket.socketpair(type=self.kind)

    def work(self):
        handle.send(self.ends[0], self.handle, timeout=5)

    def check(self, made):
        with handle.recv(self.ends[1], timeout=5) as got, SharedRegion.attach(got) as region:
            assert memoryview(region)[5] == 5

    def clear(self):
        for end in self.ends:
            end.close()
        super().clear()


class SendMessage(Send):
    kind = socket.SOCK_SEQPACKET


class SendToAFullSocket(Send):
    """It has to wait, and nobody comes."""

    calls = Send.calls | {"poll"}

    def work(self):
        with suppress(BlockingIOError):
            while True:
                self.ends[0].send(b"x" * 4096, socket.MSG_DONTWAIT)
        with suppress(TimeoutError):
            handle.send(self.ends[0], self.handle, timeout=0.001)

    def check(self, made):
        """Nothing arrived whole."""


class Receive(Send):
    calls = frozenset({"recvmsg"})

    def prepare(self):
        super().prepare()
        handle.send(self.ends[0], self.handle, timeout=5)

    def work(self):
        return handle.recv(self.ends[1], timeout=5)

    def check(self, made):
        with made, SharedRegion.attach(made) as region:
            assert memoryview(region)[5] == 5


class ReceiveMessage(Receive):
    kind = socket.SOCK_SEQPACKET


# -- rings ------------------------------------------------------------------------------------


def works_both_ways(ring):
    """The ring carries a message, and is closed."""
    with ring, ring.writer() as writer, ring.reader() as reader:
        writer.write(b"x")
        assert reader.read(timeout=5) == b"x"


class CreateRing(Work):
    calls = frozenset({"memfd_create", "ftruncate", "fcntl", "madvise"})

    def prepare(self):
        filling._recent.clear()

    def work(self):
        return MessageRing.create(PAGE, pages="base")

    def check(self, made):
        works_both_ways(made)


class CreateRingNamed(CreateRing):
    calls = frozenset({"ftruncate", "flock", "linkat", "madvise"})

    def work(self):
        return MessageRing.create(PAGE, pages="base", name=NAME)

    def check(self, made):
        made.unlink()
        works_both_ways(made)

    def clear(self):
        assert os.listdir(names.SHM) == []


class AttachRing(Work):
    """Where its data may not be opened for writing it can still be read."""

    calls = frozenset({"mmap"})

    def prepare(self):
        MessageRing.create(PAGE, pages="base", name=NAME, keep=True).close()

    def work(self):
        return MessageRing.attach(NAME)

    def check(self, made):
        with made, made.reader() as reader:
            assert reader.try_read() is None

    def clear(self):
        os.unlink(PATH)
        os.unlink(PATH + ".data")


class TakeItsEnds(Work):
    calls = frozenset({"fcntl", "mmap"})

    def prepare(self):
        self.ring = MessageRing.create(PAGE, pages="base")

    def work(self):
        with ExitStack() as undo:
            writer = undo.enter_context(self.ring.writer())
            reader = undo.enter_context(self.ring.reader())
            reader.fileno()
            undo.pop_all()
        return writer, reader

    def check(self, made):
        with made[0] as writer, made[1] as reader:
            writer.write(b"x")
            assert reader.read(timeout=5) == b"x"

    def clear(self):
        self.ring.close()
        self.ring = None


# -- give back --------------------------------------------------------------------------------


class Close(Work):
    """A close that fails can be done again."""

    words: ClassVar = {}

    def prepare(self):
        self.region = SharedRegion.create(3 * PAGE, **{"pages": "base", **self.words})

    def work(self):
        self.region.close()

    def clear(self):
        self.region.close()
        assert self.region.closed
        self.region = None  # which holds its addresses
        with suppress(FileNotFoundError):
            os.unlink(PATH)


class CloseHuge(Close):
    """Needs a pool of pages of 2 MiB, on node 1."""

    words: ClassVar = {"pages": "2M", "node": 1}


class CloseNamed(Close):
    words: ClassVar = {"name": NAME}

    def work(self):
        self.region.close()
        self.region.unlink()


class LeaveAWith(Close):
    def work(self):
        with self.region:
            pass


class Drop(Close):
    def work(self):
        del self.region

    def clear(self):
        """Gone already."""


class CloseDropIn(Close):
    def prepare(self):
        self.region = SharedMemory(NAME, create=True, size=5000)

    def work(self):
        self.region.close()
        self.region.unlink()

    def clear(self):
        self.region.close()
        with suppress(FileNotFoundError):
            self.region.unlink()


class Collect(Work):
    def prepare(self):
        SharedRegion.create(PAGE, name=NAME).close()

    def work(self):
        return names.collect(PATH)

    def check(self, made):
        assert made is not os.path.lexists(PATH)

    def clear(self):
        with suppress(FileNotFoundError):
            os.unlink(PATH)


# -- register with a device, which is the double -----------------------------------------------


class Register(Work):
    """The kernel is only asked what is mapped there; a refusal of that is one of the registration."""

    calls = frozenset({"openat"})

    def prepare(self):
        self.rig = cuda_rig.DoubleRig()
        self.rig.make_current()
        self.region = SharedRegion.create(3 * PAGE, pages="base")

    def work(self):
        return cuda.register(self.region)

    def check(self, made):
        assert made.pinned == self.region.pinned == 3 * PAGE
        made.close()

    def clear(self):
        assert (self.region.pinned, self.region.views, self.rig.double.ranges) == (0, 0, [])
        self.region.close()
        self.region = self.rig = None
        cuda_rig.remove()


class TakeFromAHostPool(Register):
    calls = Create.calls

    def prepare(self):
        super().prepare()
        filling._recent.clear()
        self.pool = cuda.HostPool()

    def work(self):
        return self.pool.acquire(3 * PAGE)

    def check(self, made):
        assert made.region.pinned == 3 * PAGE
        made.release()

    def clear(self):
        self.pool.close()
        assert self.pool.stats().held_bytes == 0
        self.pool = None
        super().clear()


HUGE = (CreateHuge, CreateNamedHuge, AttachHuge, CloseHuge)
