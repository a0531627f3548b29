"""Names on two nodes: huge pages in a hugetlbfs mount, who pays (FAULTS M10), files that vanish (M6)."""

import multiprocessing
import os
import re
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest
from counts import nothing_left
from cpusets import inside_group
from memory import PAGE

from zerosys import handle, names, segments
from zerosys.errors import Unsupported
from zerosys.region import SharedRegion

HUGE = 2 << 20
POOL = 16  # of each node, as the shape has it
MIB = 1 << 20


def free(node):
    with open(f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/free_hugepages") as file:
        return int(file.read())


def zerosys_region(*words):
    return subprocess.run(
        [sys.executable, "-m", "zerosys", "region", *words], capture_output=True, text=True, timeout=60
    )


@pytest.fixture(autouse=True, scope="module")
def _no_mount_of_the_guest_s():
    mounted = [folder for folder, page in names.huge_mounts() if page == HUGE]
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)
    yield
    for folder in mounted:
        subprocess.run(["mount", "-t", "hugetlbfs", "none", folder], check=True)


@pytest.fixture
def mount():
    """A mount for names of 2 MiB pages, made by the command that the refusal without one says."""
    with nothing_left(), pytest.raises(Unsupported, match="mount -t hugetlbfs") as refusal:
        SharedRegion.create(HUGE, name="huge", pages="2M")
    command = re.search(r"mkdir -p .*$", refusal.value.strerror)[0]
    subprocess.run(command, shell=True, check=True)
    folder = command.split()[-1]
    yield folder
    subprocess.run(["umount", folder], check=True)
    assert (free(0), free(1)) == (POOL, POOL)


@pytest.mark.parametrize("node", [0, 1])
def test_a_huge_name_is_whole_on_its_node_and_seen_so(mount, node):
    with SharedRegion.create(3 * MIB, name="huge", pages="2M", node=node) as region:
        assert (region.backing.source, region.backing.pages) == ("hugetlbfs", "2M")
        assert region.placement().nodes == {node: 2} and region.verify().ok
        assert free(node) == POOL - 2
        seen = segments.segment("huge")
        assert (seen.path, seen.size, seen.page_size) == (f"{mount}/huge", 4 * MIB, HUGE)
        assert (seen.nodes, seen.unplaced, seen.state) == ({node: 2}, 0, "in use")
        assert [process.pid for process in seen.attached] == [os.getpid()]
        memoryview(region)[3 * MIB - 1] = 9
        with SharedRegion.attach("huge") as other:
            assert memoryview(other)[3 * MIB - 1] == 9
            assert (other.backing.source, other.page_size) == ("hugetlbfs", HUGE)
            assert other.placement().nodes == {node: 2}
        region.unlink()
        with pytest.raises(FileNotFoundError):
            SharedRegion.attach("huge")


def test_another_process_attaches_and_the_command_tells_of_both(mount):
    code = """
from zerosys.region import SharedRegion
with SharedRegion.attach("huge", timeout=30) as region:
    memoryview(region)[0] = 5
    print(region.placement().nodes, flush=True)
    input()
"""
    with SharedRegion.create(2 * HUGE, name="huge", pages="2M", node=1) as region:
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout.readline() == "{1: 2}\n" and memoryview(region)[0] == 5
            done = zerosys_region("show", "huge")
            assert (done.returncode, done.stderr) == (0, "")
            assert "nodes:      1:2\n" in done.stdout and "2 of 2 MiB exist" in done.stdout
            assert f"{os.getpid()} " in done.stdout and f"{other.pid} " in done.stdout
            other.communicate("\n")
        region.unlink()


def test_huge_orphans_are_found_and_removed(mount):
    SharedRegion.create(HUGE, name="orphan", pages="2M", node=0).close()
    SharedRegion.create(HUGE, name="kept", pages="2M", node=0, keep=True).close()
    with SharedRegion.create(HUGE, name="used", pages="2M", node=1) as used:
        done = zerosys_region("gc", "--yes")
        assert done.returncode == 0 and "removed 1\n" in done.stdout
        assert sorted(os.listdir(mount)) == ["kept", "used"]
        assert (free(0), free(1)) == (POOL - 1, POOL - 1)
        used.unlink()
    segments.remove("kept")


def test_looking_takes_no_page_from_the_pool(mount):
    fd = os.open(f"{mount}/sparse", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 4 * HUGE)
    with SharedRegion.attach(fd, unsealed=True) as all_of_it:
        os.truncate(fd, HUGE)
        os.ftruncate(fd, 4 * HUGE)
        all_of_it.resident()
    before = free(0), free(1)
    seen = segments.segment("sparse")
    assert (seen.size, seen.pages, seen.nodes, seen.unplaced) == (4 * HUGE, 1, {}, 1)
    assert (free(0), free(1)) == before and os.fstat(fd).st_blocks * 512 == HUGE
    os.close(fd)
    segments.remove("sparse")


def test_a_folder_that_is_mounted_twice_is_listed_once(mount):
    again = "/run/again \\040\tand again\xe9"  # the kernel writes some of that as octal
    os.makedirs(again, exist_ok=True)
    subprocess.run(["mount", "--bind", mount, again], check=True)
    try:
        with SharedRegion.create(HUGE, name="huge", pages="2M") as region:
            assert {mount, again} <= {folder for folder, _ in names.huge_mounts()}
            assert [one.name for one in segments.listing()].count("huge") == 1
            region.unlink()
    finally:
        subprocess.run(["umount", again], check=True)


def test_auto_takes_a_huge_name_only_where_a_mount_takes_it():
    with SharedRegion.create(2 * HUGE, name="auto", node=1) as region:
        assert region.backing.source == "tmpfs" and region.verify().ok
        region.unlink()


def test_auto_takes_a_huge_name_where_it_is_mounted(mount):
    with SharedRegion.create(2 * HUGE, name="auto", node=1) as region:
        assert region.backing.source == "hugetlbfs" and region.placement().nodes == {1: 2}
        region.unlink()


def test_a_full_pool_leaves_no_name(mount):
    with nothing_left(), pytest.raises(OSError, match="pool of 2 MiB"):
        SharedRegion.create((POOL + 1) * HUGE, name="huge", pages="2M", node=1)
    with nothing_left(), pytest.raises(OSError, match="ran out"):
        SharedRegion.create((POOL + 1) * HUGE, name="huge", pages="2M", node=1, force=True)
    assert os.listdir(mount) == []


def use(fd):
    with SharedRegion.attach(fd, unsealed=True) as other:
        assert memoryview(other)[-1] == 3 and other.placement().all_on(1)
        memoryview(other)[0] = 4


@pytest.mark.parametrize("pages", ["base", "2M"])
def test_a_file_removed_behind_the_region_takes_nothing_from_it(mount, pages):
    with SharedRegion.create(2 * HUGE, name="gone", pages=pages, node=1) as region:
        os.unlink(names.find("gone"))
        memoryview(region)[-1] = 3
        child = multiprocessing.get_context("fork").Process(target=use, args=(region.fileno(),))
        child.start()
        child.join()
        assert child.exitcode == 0
        assert memoryview(region)[0] == 4 and region.verify().ok
        region.unlink()


# -- who pays ---------------------------------------------------------------------------------


def charged(group):
    return int((group / "memory.current").read_text())


def attach_in_another_group(ours, told):
    with inside_group() as group, handle.recv(ours, timeout=60) as given:
        before = charged(group)
        with SharedRegion.attach(given) as region:
            told.send((charged(group) - before, region.verify().ok))
            told.recv()


@pytest.mark.parametrize("payer", ["creator", "attacher"])
def test_who_populates_pays(payer):
    size = 64 * MIB
    context = multiprocessing.get_context("fork")  # starting Python anew takes half a minute here
    ours, theirs = socket.socketpair()
    told, teller = context.Pipe()
    process = context.Process(target=attach_in_another_group, args=(theirs, teller))
    process.start()
    with ExitStack() as stack:
        group = stack.enter_context(inside_group())
        before = charged(group)
        region = stack.enter_context(SharedRegion.create(size, pages="base", node=1, populate_in=payer))
        with region.handle() as given:
            handle.send(ours, given)
        theirs_grew, placed = told.recv()
        ours_grew = charged(group) - before
        told.send(None)
        assert placed and region.placement().nodes.get(1, 0) + region.placement().unmapped == size // PAGE
        mine, others = (ours_grew, theirs_grew) if payer == "creator" else (theirs_grew, ours_grew)
        assert mine >= size and others < size // 8
        process.join()
    assert process.exitcode == 0
    ours.close()
    theirs.close()


# -- vm.max_map_count -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (100 * MIB, {"pages": "base", "node": 1}),
        (100 * MIB, {"pages": "base", "node": "0-1"}),
        (100 * MIB, {"pages": "base", "node": 1, "lock": True}),
        (100 * MIB, {"pages": "thp", "node": 1}),
        (20 * MIB, {"pages": "2M", "node": 1}),
    ],
)
def test_a_region_is_one_mapping_however_it_is_bound(mount, size, words):
    with SharedRegion.create(size, name="one", **words) as region:
        inode = f" {region.file_id[1]} "
        with open("/proc/self/maps") as maps:
            assert sum(inode in line for line in maps) == 1
        region.unlink()
