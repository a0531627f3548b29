"""What other people try their kernels, wrappers and pipes with, tried on ours (FAULTS P3 to P6)."""

import errno
import fcntl
import functools
import hashlib
import os
import struct
from collections.abc import Callable
from glob import glob
from operator import or_
from pathlib import Path

import pytest
from ends import Background, Sink, no_descriptor_left
from kinds import MAKERS, descriptor

import zerosys
from zerosys import Advice, MapFlag, Mapping, PumpError, PumpTimeout, SpliceFlag, pump, set_pipe_capacity

# P3: the kernel's own files under proc and sysfs, whole and two bytes of each: every way in which
# such a file can be made is in the list (seq_file, special reads, sysctl numbers and texts, sysfs
# attributes and binary ones).

PROC = ["/proc/self/limits", "/proc/self/comm", "/proc/sys/fs/nr_open", "/proc/sys/kernel/modprobe"]
PROC += ["/proc/sys/kernel/version", "/proc/sys/kernel/ostype", "/proc/filesystems"]
SYS = ["/sys/devices/system/cpu/online", "/sys/kernel/notes", "/sys/kernel/btf/vmlinux"]
SYS += sorted(glob("/sys/module/*/coresize"))[:1] + sorted(glob("/sys/module/*/sections/.init.text"))[:1]
FILES = [path for path in PROC + SYS if os.path.exists(path)]


@pytest.mark.parametrize("count", [None, 2])
@pytest.mark.parametrize("path", FILES)
def test_p3_a_pseudo_file_is_pumped_and_spliced_as_it_reads(path, count, tmp_path):
    right = Path(path).read_bytes()[:count]
    assert right
    with no_descriptor_left():
        sink = Sink("pipe", tmp_path)
        with open(path, "rb", buffering=0) as file:
            assert pump(file, sink.fd, count, timeout=30).bytes == len(right)
        assert sink.received() == right
        spliced = _spliced(path, len(right))
    # Some cannot be spliced since 5.10, and say so before a byte is gone: never fewer or other bytes.
    assert spliced in (right, None)
    if path.startswith(("/sys/devices", "/proc/sys")):
        assert spliced == right


def _spliced(path: str, size: int) -> bytes | None:
    """*size* bytes of *path* through zerosys.splice; None if the kernel refuses the first call."""
    reader, writer = os.pipe()
    got = b""
    try:
        with open(path, "rb", buffering=0) as file:
            while len(got) < size:
                try:
                    count = zerosys.splice(file, writer, min(size - len(got), 1 << 16))
                except OSError:
                    assert not got and os.lseek(file.fileno(), 0, os.SEEK_CUR) == 0
                    return None
                if not count:
                    break
                got += os.read(reader, count)
        return got
    finally:
        os.close(reader)
        os.close(writer)


# P4: each pair of descriptors. What the thin calls say of a pair is in test_splice_refusals; this is
# what the pump says: it carries, or names the side that cannot, and hangs for no pair.

# No byte can be had of these: a datagram of twelve bytes is not cut to five, an eventfd gives eight.
NO_SOURCE = {"writing", "pipe's writing end", "folder", "path only", "closed", "/dev/null"}
NO_SOURCE |= {"datagram", "eventfd"}
NO_SINK = {"reading", "pipe's reading end", "folder", "path only", "closed", "/proc", "eventfd"}


@pytest.mark.parametrize("src", MAKERS)
def test_p4_every_pair_of_descriptors_is_carried_or_told_which_side_cannot(src, tmp_path):
    for dst in MAKERS:
        guilty = {"source"} if src in NO_SOURCE else set()
        guilty |= {"sink"} if dst in NO_SINK else set()
        with no_descriptor_left(), descriptor(src, tmp_path) as a, descriptor(dst, tmp_path) as b:
            if not guilty:
                assert pump(a, b, 5, timeout=10).bytes == 5, (src, dst)
                continue
            with pytest.raises(OSError) as refusal:
                pump(a, b, 5, timeout=10)
        if "closed" in (src, dst):
            assert refusal.value.errno == errno.EBADF
        else:
            assert isinstance(refusal.value, PumpError) and refusal.value.side in guilty, (src, dst)
            assert (refusal.value.moved, type(refusal.value) is PumpTimeout) == (0, False)


# P5: a wrapper with the C signature, on top of ours, as an object store has had it for years: flags are
# a number or a list, each offset is None or comes back advanced.


def c_splice(fd_in, off_in, fd_out, off_out, length, flags):
    bits = flags if isinstance(flags, int) else functools.reduce(or_, flags, 0)
    n = zerosys.splice(fd_in, fd_out, length, off_in, off_out, bits)
    return n, *(None if offset is None else offset + n for offset in (off_in, off_out))


def test_p5_a_wrapper_with_offsets_that_come_back_works_on_top_of_ours(tmp_path):
    first, second = os.pipe(), os.pipe()
    os.write(first[1], b"abcdef")
    assert c_splice(first[0], None, second[1], None, 3, 0) == (3, None, None)
    assert (os.read(second[0], 6), os.read(first[0], 6)) == (b"abc", b"def")
    with open(tmp_path / "file", "w+b", buffering=0) as file:
        file.write(b"abcdef")
        file.seek(0)
        assert c_splice(file, None, second[1], None, 3, []) == (3, None, None)
        assert file.tell() == 3  # the descriptor's own position
        file.seek(0)
        flags = [SpliceFlag.MOVE, SpliceFlag.NONBLOCK]
        assert c_splice(file, 3, second[1], None, 3, flags) == (3, 6, None)
        assert file.tell() == 0
        assert os.read(second[0], 10) == b"abcdef"
        os.write(first[1], b"ABCDEF")
        assert c_splice(first[0], None, file, None, 3, 0) == (3, None, None)
        assert file.tell() == 3
        assert c_splice(first[0], None, file, 3, 3, 0) == (3, None, 6)
        assert file.tell() == 3
        file.seek(0)
        assert file.read() == b"ABCDEF"
    os.write(first[1], b"teed")
    open_reader = os.fdopen(first[0], "rb", 0)
    assert zerosys.tee(open_reader, second[1], 3, 0) == 3
    assert (os.read(second[0], 9), open_reader.read(9)) == (b"tee", b"teed")
    for name in ("splice", "tee"):
        with open("/dev/null", "rb") as null, pytest.raises(OSError, match=rf"\[Errno 9\] {name}: ") as bad:
            getattr(zerosys, name)(null, null, 3)
        assert bad.value.errno == 9
    open_reader.close()
    for fd in (first[1], *second):
        os.close(fd)


# P6: the two ends of the well-known pipe benchmark, in its checking mode: numbered content in huge
# pages, halves lent in turn through a pipe of half the size, so that a half is written again only
# when all of it was read. Its rates are benchmarks/pump_lend.py.

HUGE, HALF, ROUNDS = 2 << 20, 256 << 10, 48
WORDS = HALF // 8


def _fill(half: memoryview, turn: int) -> None:
    struct.pack_into(f"<{WORDS}Q", half, 0, *range(turn * WORDS, (turn + 1) * WORDS))


def _whole(step: Callable[[memoryview], int], view: memoryview) -> None:
    """All of *view* by *step*, which may take a part or be busy."""
    while view:
        try:
            view = view[step(view) :]
        except BlockingIOError:
            os.sched_yield()


@pytest.mark.parametrize("busy", [False, True], ids=["sleeping", "busy"])
@pytest.mark.parametrize("read_with", ["read", "splice", "pump"])
@pytest.mark.parametrize("write_with", ["write", "vmsplice"])
def test_p6_what_is_lent_in_turn_from_huge_pages_arrives_unchanged(write_with, read_with, busy, tmp_path):
    reader, writer = os.pipe()
    assert set_pipe_capacity(writer, HALF) == HALF
    for fd in (reader, writer) if busy else ():
        os.set_blocking(fd, False)
    flags = SpliceFlag.NONBLOCK if busy else SpliceFlag(0)
    step = {
        "write": lambda view: os.write(writer, view),
        "vmsplice": lambda view: zerosys.vmsplice(writer, view, flags),
    }[write_with]
    right = hashlib.sha256()

    def write() -> None:
        with Mapping(None, HUGE, flags=MapFlag.PRIVATE, align=HUGE) as memory:
            memory.advise(Advice.HUGEPAGE)
            with memoryview(memory) as view:
                for turn in range(ROUNDS):
                    with view[turn % 2 * HALF :][:HALF] as half:
                        _fill(half, turn)
                        right.update(half)
                        _whole(step, half)
            os.close(writer)

    writing = Background(write)
    got = hashlib.sha256()
    with open(tmp_path / "got", "w+b", buffering=0) as sink:
        count = _drain(read_with, reader, sink, flags)
        writing.result()
        sink.seek(0)
        while piece := sink.read(HALF):
            got.update(piece)
    assert count == ROUNDS * HALF
    assert got.digest() == right.digest()
    assert bool(fcntl.fcntl(reader, fcntl.F_GETFL) & os.O_NONBLOCK) == busy
    os.close(reader)


def _drain(how: str, reader: int, sink, flags: SpliceFlag) -> int:
    if how == "pump":
        return pump(reader, sink, timeout=30, strict=True).bytes
    total = 0
    while True:
        try:
            if how == "splice":
                count = zerosys.splice(reader, sink, HALF, flags=flags)
            else:
                count = sink.write(os.read(reader, HALF))
        except BlockingIOError:
            os.sched_yield()
            continue
        if not count:
            return total
        total += count
