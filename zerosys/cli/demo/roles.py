"""What each of the three processes does: our way, and the ordinary way beside it.

Every method that is timed returns its start, its end (of the clock that all processes
share) and the processor seconds between them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import struct
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from zerosys._transfer import Transfer
from zerosys.cli.demo import stream

if TYPE_CHECKING:
    from zerosys.region import SharedRegion

# Reader and receiver overlap at this grain: the last piece is what the reader adds to the time.
STEP = 4 << 20
# Of 64 KiB, 256 KiB and 1 MiB the size at which the ordinary way is fastest: a fair rival.
CHUNK = 64 << 10
# The receiver is woken when this much waits, not for each segment; the end of the stream wakes it too.
WORTH_WAKING = 512 << 10
_PLACE = struct.Struct("=Q")


class Stopwatch:
    """Wall and processor time of this process from its making to stop()."""

    def __init__(self) -> None:
        self._start, self._cpu = time.monotonic(), time.process_time()

    def stop(self, **more: Any) -> dict[str, Any]:
        """The times, and *more* beside them."""
        cpu = time.process_time() - self._cpu
        return {"start": self._start, "end": time.monotonic(), "cpu": cpu, **more}


class Role:
    """What all three have."""

    def descriptors(self) -> int:
        """How many descriptors this process has open."""
        return len(os.listdir("/proc/self/fd"))


class Sender(Role):
    """Has the file, and sends it to a port of this host."""

    def __init__(self, path: str | None, size: int, timeout: float) -> None:
        self._file = stream.make(size) if path is None else open(path, "rb", buffering=0)
        self._timeout = timeout
        self._socket: socket.socket | None = None

    def about(self) -> dict[str, Any]:
        """Size, sha256 and checksum of the file."""
        hashed, summed = hashlib.sha256(), stream.Checksum()
        while piece := self._file.read(1 << 20):
            hashed.update(piece)
            summed.add(piece)
        return {"bytes": summed.bytes, "sha256": hashed.hexdigest(), "checksum": summed.value}

    def connect(self, port: int) -> None:
        """Connect, and go back to the start of the file."""
        self._socket = socket.create_connection(("127.0.0.1", port), self._timeout)
        self._socket.settimeout(None)
        self._file.seek(0)

    def send(self, size: int) -> dict[str, Any]:
        """File -> pipe -> socket, by splice."""
        assert self._socket
        watch = Stopwatch()
        with Transfer(self._file, self._socket, size) as transfer:
            transfer.run(self._timeout)
            self._socket.shutdown(socket.SHUT_WR)
            times = watch.stop(**_counts(transfer), pipe_size=transfer.pipe_size)
        blocking = os.get_blocking(self._socket.fileno())
        self._socket.close()
        return {**times, "flags_restored": blocking}

    def send_ordinary(self, size: int) -> dict[str, Any]:
        """read, sendall."""
        assert self._socket
        sent = 0
        watch = Stopwatch()
        while piece := self._file.read(min(CHUNK, size - sent)):
            self._socket.sendall(piece)
            sent += len(piece)
        self._socket.shutdown(socket.SHUT_WR)
        times = watch.stop(moved=0, received=0, copied=sent, stranded=0, path="read, sendall")
        self._socket.close()
        return times


class Receiver(Role):
    """Has the region, and takes what comes into it."""

    def __init__(self, handles: socket.socket, progress: Connection, queue: Any, timeout: float) -> None:
        self._handles, self._progress, self._queue = handles, progress, queue
        self._timeout = timeout
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(timeout)
        self._socket: socket.socket | None = None
        self._region: SharedRegion | None = None

    def port(self) -> int:
        """Where connect() finds this process."""
        return int(self._listener.getsockname()[1])

    def make_region(self, size: int, node: int | None, pages: str) -> dict[str, Any]:
        """Create the region on *node*, None for ours; unplaced where the kernel refuses policy calls."""
        from zerosys.errors import PlacementError
        from zerosys.region import SharedRegion

        refusal = None
        if node is None:
            node = _node_here()
        try:
            self._region = SharedRegion.create(size, node=node, pages=pages)
        except PlacementError as refused:
            if refused.errno not in (errno.EPERM, errno.ENOSYS):
                raise
            refusal = str(refused)
            self._region = SharedRegion.create(size, pages=pages)
        return {"node": node, "refusal": refusal, **_placement(self._region)}

    def hand_over(self) -> None:
        """Send the region's descriptor to the reader."""
        from zerosys import handle

        assert self._region
        with self._region.handle() as carried:
            handle.send(self._handles, carried, timeout=self._timeout)

    def accept(self) -> None:
        """Take the connection that the sender made."""
        self._socket, _ = self._listener.accept()
        self._socket.settimeout(None)

    def wipe(self) -> None:
        """Make every byte of the region zero, so that a round proves its own delivery."""
        assert self._region
        with memoryview(self._region) as view:
            zeros = bytes(STEP)
            for at in range(0, len(view), STEP):
                view[at : at + STEP] = zeros[: len(view) - at]

    def receive(self, size: int) -> dict[str, Any]:
        """Socket -> region, in place; the reader is told how far it got."""
        assert self._socket and self._region
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WORTH_WAKING)
        counts = dict.fromkeys(("moved", "received", "copied", "stranded"), 0) | {"path": None}
        deadline = time.monotonic() + self._timeout
        watch = Stopwatch()
        with memoryview(self._region) as view:
            for at in range(0, size, STEP):
                with Transfer(self._socket, view[at : min(at + STEP, size)]) as transfer:
                    transfer.run(max(0.0, deadline - time.monotonic()))
                    if not transfer.received:
                        raise EOFError(f"the stream ended after {counts['received']} of {size} bytes")
                    for name, value in _counts(transfer).items():
                        counts[name] = value if name == "path" else counts[name] + value
                self._progress.send_bytes(_PLACE.pack(counts["received"]))
        times = watch.stop(**counts)
        self._socket.close()
        return times

    def receive_ordinary(self, size: int) -> dict[str, Any]:
        """recv, and a multiprocessing.Queue to the reader."""
        assert self._socket
        got = 0
        watch = Stopwatch()
        while piece := self._socket.recv(CHUNK):
            self._queue.put(piece)
            got += len(piece)
        times = watch.stop(moved=0, received=0, copied=got, stranded=0, path="recv, Queue.put")
        self._socket.close()
        return times

    def proof(self) -> dict[str, Any]:
        """Where the region's pages are now."""
        assert self._region
        return _placement(self._region)


class Reader(Role):
    """Attaches to the region, and reads it as an array."""

    def __init__(self, handles: socket.socket, progress: Connection, queue: Any, timeout: float) -> None:
        self._handles, self._progress, self._queue = handles, progress, queue
        self._timeout = timeout
        self._region: SharedRegion | None = None

    def attach(self) -> None:
        """Receive the descriptor, and map what it is for reading."""
        from zerosys import handle
        from zerosys.region import SharedRegion

        with handle.recv(self._handles, timeout=self._timeout) as carried:
            self._region = SharedRegion.attach(carried, read_only=True)

    def read(self, size: int) -> dict[str, Any]:
        """Read every byte of the region as it arrives."""
        assert self._region
        summed = stream.Checksum()
        array = self._region.array("u1")
        watch = Stopwatch()
        while summed.bytes < size:
            if not self._progress.poll(self._timeout):
                raise TimeoutError(f"the receiver told nothing for {self._timeout:g} s")
            (there,) = _PLACE.unpack(self._progress.recv_bytes())
            summed.add(array[summed.bytes : there])
        return watch.stop(bytes=summed.bytes, checksum=summed.value)

    def read_ordinary(self, size: int) -> dict[str, Any]:
        """Read every byte of the pieces that the queue brings."""
        summed = stream.Checksum()
        watch = Stopwatch()
        while summed.bytes < size:
            summed.add(self._queue.get(timeout=self._timeout))
        return watch.stop(bytes=summed.bytes, checksum=summed.value, copied=summed.bytes)

    def hash_ordinary(self, size: int) -> dict[str, Any]:
        """As read_ordinary, untimed and with the sha256 of what came."""
        hashed, got = hashlib.sha256(), 0
        while got < size:
            piece = self._queue.get(timeout=self._timeout)
            hashed.update(piece)
            got += len(piece)
        return {"bytes": got, "sha256": hashed.hexdigest()}

    def proof(self, size: int) -> dict[str, Any]:
        """What this process sees of the region: its bytes, its place, and that it is the same memory."""
        assert self._region
        region = self._region
        array = region.array("u1")[:size]
        at = array.ctypes.data if size else region.address
        return {
            "sha256": hashlib.sha256(memoryview(region)[:size]).hexdigest(),
            "iq": stream.describe(array),
            "in_place": region.address <= at and at + size <= region.address + region.mapped_size,
            "shrink_refused": _shrink_refused(region),
            **_placement(region),
        }


def _node_here() -> int | None:
    """The node of the CPU we run on, or the nearest to it where we may have memory."""
    from zerosys._numa import getcpu
    from zerosys.machine import topology

    machine = topology()
    here = machine.nodes.get(getcpu()[1])
    if here is None or here.id in machine.allowed_nodes:
        return here.id if here else None
    return min(machine.allowed_nodes, key=lambda node: (here.distances.get(node, 255), node), default=None)


def _shrink_refused(region: SharedRegion) -> bool:
    """Whether the kernel refuses to shrink the region's file under those who use it."""
    if not region.sealed:
        return False  # and it would not
    writable = os.open(f"/proc/self/fd/{region.fileno()}", os.O_RDWR)
    try:
        os.ftruncate(writable, 0)
    except PermissionError:
        return True
    finally:
        os.close(writable)
    return False


def _counts(transfer: Transfer) -> dict[str, Any]:
    return {name: getattr(transfer, name) for name in ("moved", "received", "copied", "stranded", "path")}


def _placement(region: SharedRegion) -> dict[str, Any]:
    """Where the pages are, and what they are; the file tells processes' regions apart."""
    file = os.fstat(region.fileno())
    facts: dict[str, Any] = {
        "file": [file.st_dev, file.st_ino],
        "backing": str(region.backing),
        "page_size": region.page_size,
        "huge_bytes": region.backing.huge_bytes,
        "mapped_size": region.mapped_size,
        "policy": repr(region.policy) if region.policy else None,
    }
    try:
        checked = region.verify()
    except OSError as refusal:
        return facts | {"verified": False, "why_not": str(refusal), "pages_by_node": None}
    facts |= {"verified": checked.ok, "why_not": checked.reason, "pages_by_node": None}
    if found := checked.placement:
        facts["pages_by_node"] = {str(node): count for node, count in sorted(found.nodes.items())}
        facts |= {"absent": found.absent, "unmapped": found.unmapped, "unknown": found.unknown}
    return facts
