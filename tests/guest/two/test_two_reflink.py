"""On a file system whose files can share blocks a pump from file to file copies none, and says so."""

import asyncio
import fcntl
import json
import os
import struct
import subprocess

import pytest
from commands import zerosys
from needs import need
from peers import tool

from zerosys import pump
from zerosys.pumps import aio

MIB = 1 << 20
DATA = os.urandom(4 * MIB)
FS_IOC_FIEMAP, FIEMAP_FLAG_SYNC, FIEMAP_EXTENT_SHARED = 0xC020660B, 1, 0x2000


@pytest.fixture(scope="module")
def xfs(tmp_path_factory):
    """A folder on an XFS of its own, in an image that a loop device serves."""
    mkfs = tool("mkfs.xfs")
    folder = tmp_path_factory.mktemp("xfs")
    with open(folder / "image", "wb") as image:
        image.truncate(320 * MIB)  # about the least that mkfs.xfs makes
    for module in ("loop", "xfs"):
        done = subprocess.run([tool("modprobe"), module], capture_output=True, text=True)
        need("xfs", done.stderr.strip() if done.returncode else None)
    subprocess.run([mkfs, "-q", "-m", "reflink=1", folder / "image"], check=True)
    (folder / "on").mkdir()
    subprocess.run(["mount", "-o", "loop", folder / "image", folder / "on"], check=True)
    yield folder / "on"
    subprocess.run(["umount", folder / "on"], check=True)


@pytest.fixture
def folder(xfs):
    """It, with a file ``in`` in it; emptied again."""
    (xfs / "in").write_bytes(DATA)
    os.sync()
    yield xfs
    for file in xfs.iterdir():
        file.unlink()


def extents(path):
    """(offset in the file, offset on the disk, length, whether another file has it too) of each piece."""
    most = 16  # what fcntl.ioctl() has room for
    asked = struct.pack("=QQIIII", 0, 2**64 - 1, FIEMAP_FLAG_SYNC, 0, most, 0).ljust(32 + most * 56, b"\0")
    with open(path, "rb") as file:
        told = fcntl.ioctl(file, FS_IOC_FIEMAP, asked)
    (count,) = struct.unpack_from("=I", told, 20)
    assert count < most
    pieces = [struct.unpack_from("=QQQQQI", told, 32 + n * 56) for n in range(count)]
    return [(at, disk, size, bool(flags & FIEMAP_EXTENT_SHARED)) for at, disk, size, _, _, flags in pieces]


def shared(path):
    return sum(size for _, _, size, both in extents(path) if both)


def free(folder):
    os.sync()
    told = os.statvfs(folder)
    return told.f_bfree * told.f_frsize


def test_a_whole_file_shares_every_block_and_takes_no_room(folder):
    before = free(folder)
    with open(folder / "in", "rb") as src, open(folder / "out", "wb") as dst:
        result = pump(src, dst, strict=True)
        assert (src.tell(), dst.tell()) == (len(DATA), len(DATA))
    assert (result.path, result.moved, result.copied) == ("reflink", len(DATA), 0)
    assert (folder / "out").read_bytes() == DATA
    assert extents(folder / "out") == extents(folder / "in")
    assert shared(folder / "out") == len(DATA)
    assert before - free(folder) < len(DATA) // 4


def test_an_ordinary_copy_shares_nothing_which_shows_that_the_look_at_it_is_no_fiction(folder):
    before = free(folder)
    (folder / "out").write_bytes(DATA)
    assert before - free(folder) >= len(DATA)
    assert shared(folder / "out") == 0 and extents(folder / "out") != extents(folder / "in")


def test_what_is_written_later_to_either_is_not_seen_in_the_other(folder):
    with open(folder / "in", "r+b") as src, open(folder / "out", "w+b") as dst:
        assert not pump(src, dst, stable=True).aliases
        os.pwrite(src.fileno(), b"later", 0)
        os.pwrite(dst.fileno(), b"there", MIB)
    assert (folder / "out").read_bytes() == DATA[:MIB] + b"there" + DATA[MIB + 5 :]
    assert (folder / "in").read_bytes() == b"later" + DATA[5:]


def test_a_piece_that_ends_where_blocks_end_is_shared_too(folder):
    with open(folder / "in", "rb") as src, open(folder / "out", "wb") as dst:
        result = pump(src, dst, MIB, offset_src=2 * MIB, offset_dst=MIB)
        assert (src.tell(), dst.tell()) == (0, 0)
    assert (result.path, result.moved) == ("reflink", MIB)
    assert (folder / "out").read_bytes() == bytes(MIB) + DATA[2 * MIB : 3 * MIB]
    assert shared(folder / "out") == MIB


@pytest.mark.parametrize(
    ("offset", "count"), [(1, None), (0, MIB + 1), (4096, 5000)], ids=["begins", "ends", "both"]
)
def test_a_piece_that_is_no_whole_blocks_is_carried_by_the_kernel(offset, count, folder):
    with open(folder / "in", "rb") as src, open(folder / "out", "wb") as dst:
        result = pump(src, dst, count, offset_src=offset, strict=True)
    assert result.path == "copy_file_range, kernel copies"
    assert (folder / "out").read_bytes() == DATA[offset:][:count]


def test_appending_and_a_rate_are_kept(folder):
    (folder / "log").write_bytes(b"before")
    with open(folder / "in", "rb") as src, open(folder / "log", "ab") as log:
        assert pump(src, log).path == "read-write"
    assert (folder / "log").read_bytes() == b"before" + DATA
    with open(folder / "in", "rb") as src, open(folder / "out", "wb") as dst:
        result = pump(src, dst, MIB, rate=4 * MIB)
    assert result.path == "copy_file_range, kernel copies" and result.seconds > 0.2


def test_the_event_loop_and_the_command_share_blocks_too(folder):
    async def main():
        with open(folder / "in", "rb") as src, open(folder / "out", "wb") as dst:
            return await aio.pump(src, dst)

    assert asyncio.run(main()).path == "reflink"
    told = json.loads(zerosys("pump", str(folder / "in"), str(folder / "again"), "--json").stdout)
    assert (told["path"], told["moved"], told["aliases"]) == ("reflink", len(DATA), False)
    assert extents(folder / "again") == extents(folder / "out") == extents(folder / "in")


def test_a_file_system_that_is_full_is_no_obstacle_for_what_takes_no_room(folder):
    with open(folder / "ballast", "wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, free(folder) - 2 * MIB)
    assert free(folder) < len(DATA)
    with open(folder / "in", "rb") as src, open(folder / "out", "wb") as dst:
        assert pump(src, dst).path == "reflink"
    assert (folder / "out").read_bytes() == DATA
