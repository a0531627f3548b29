"""What procfs and sysfs tell that nobody here chose: names of any bytes, and files that are not there."""

import errno
import mmap
import os
import subprocess
import sys

import pytest
from failing import private, private_refusal
from needs import need
from trees import node_files, write_tree

from zerosys import _numa
from zerosys.attached import Process, attached
from zerosys.cgroups import memory_cgroups
from zerosys.cuda.areas import areas
from zerosys.limits import available_memory
from zerosys.locality import node_of
from zerosys.machine import topology
from zerosys.numa_maps import parse_range, read_numa_maps
from zerosys.sysfs import fields, lines

# A letter of two bytes, and the first half of another: where the kernel cuts a name after 15 bytes.
HALF = b"\xd0\xbf\xd1"
WITHOUT_PROCFS = [*private(), "sh", "-c", 'umount -l /proc && exec "$@"', "-"]
ASK = """
import mmap
from zerosys import Bind, SharedRegion, available_memory, capabilities, move_to, node_of, topology
from zerosys.cuda.budget import Budget
from zerosys.locking import may_lock_all
page = mmap.mmap(-1, mmap.PAGESIZE)
page[0] = 1
node = min(topology().allowed_nodes)
assert available_memory() > 0 and available_memory(node) > 0
SharedRegion.create("64KiB", node=node).close()
assert move_to(page, node).nodes == {node: 1}
Bind(node).apply(page)
assert len(capabilities()) > 8
may_lock_all(), Budget(None, 1 << 40, 1.0).require(1, 0)
"""


def ran(code, *before):
    done = subprocess.run([*before, sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_a_process_whose_name_was_cut_in_the_middle_of_a_letter_is_served():
    ran(f"import ctypes; ctypes.CDLL(None).prctl(15, {HALF!r}, 0, 0, 0){ASK}")


def test_without_procfs_memory_is_made_placed_and_moved_all_the_same():
    need("private mounts", private_refusal())
    ran(ASK, *WITHOUT_PROCFS)


@pytest.mark.parametrize(
    "command, status, text",
    [
        (["hardware"], 0, ""),
        (["show"], 0, ""),
        (["hugepages"], 0, ""),
        (["run", "-N", "0", "-m", "0", "true"], 0, ""),
        (["stat", "self"], 1, "procfs is not mounted: mount -t proc proc /proc"),
        (["migrate", "self", "0", "0"], 1, "procfs is not mounted: mount -t proc proc /proc"),
        (["top", "-n", "1"], 1, "procfs is not mounted: mount -t proc proc /proc"),
    ],
)
def test_without_procfs_a_command_does_what_it_can_or_says_what_is_missing(command, status, text):
    need("private mounts", private_refusal())
    done = subprocess.run(
        [*WITHOUT_PROCFS, sys.executable, "-m", "zerosys", *command],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert done.stderr == (f"zerosys {command[0]}: {text}\n" if text else "")


def test_only_a_newline_ends_a_line_and_any_bytes_are_kept(tmp_path):
    (tmp_path / "status").write_bytes(b"Name:\tx\x0cSeccomp:\t2\xff\nSeccomp:\t0\n")
    assert lines(f"{tmp_path}/status")[1:] == ["Seccomp:\t0"]
    assert fields(f"{tmp_path}/status") == {"Name": "x\x0cSeccomp:\t2\udcff", "Seccomp": "0"}


@pytest.mark.parametrize("space", ["\u3000", "\xa0", "\x0c", "\u2028", "\x1c"])
def test_white_space_of_other_scripts_in_a_files_name_is_no_end_of_it(tmp_path, space):
    file = tmp_path / f"a{space}huge{space}N7"
    file.write_bytes(bytes(mmap.PAGESIZE))
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as memory:
        assert memory[0] == 0
        found = [one for one in read_numa_maps(0) if one.file == str(file)]
    assert [(one.huge, one.use, sum(one.nodes.values())) for one in found] == [(False, "file", 1)]


@pytest.mark.parametrize("command", ["zerosys stat --largest 0", "zerosys stat --each", "numastat -p"])
def test_a_name_with_a_carriage_return_is_one_line(tmp_path, command):
    file = tmp_path / "a\rb\xa0huge\x85\u2028c"
    file.write_bytes(bytes(mmap.PAGESIZE))
    name, *words = command.split()
    run = f"import sys; sys.argv[0] = {name!r}; from zerosys.cli import main; sys.exit(main())"
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as memory:
        assert memory[0] == 0
        done = subprocess.run(
            [sys.executable, "-c", run, *words, str(os.getpid())],
            capture_output=True, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    if name == "zerosys":
        assert b"a\\rb\\xa0huge\\x85\\u2028c" in done.stdout and b"\r" not in done.stdout


def test_a_line_of_numa_maps_is_parted_at_spaces_alone():
    line = "7f00 prefer (many):0 file=/a\u3000huge\\040b\\075 mapped=3 N12=3 kernelpagesize_kB=4\n"
    found = parse_range(line)
    assert (found.policy, found.file, found.nodes) == ("prefer (many):0", "/a\u3000huge b=", {12: 3})
    assert (found.huge, found.counts, found.page_size) == (False, {"mapped": 3}, 4096)


def test_mount_points_of_any_bytes_hide_no_limit(tmp_path):
    root = write_tree(
        tmp_path,
        {
            "proc/meminfo": "MemTotal: 90000 kB\nMemAvailable: 90000 kB\n",
            "proc/self/cgroup": "0::/a\n",
            "sys/fs/cg\u3000x/a/memory.max": "4096\n",
            "sys/fs/cg\u3000x/a/memory.current": "96\n",
            "sys/fs/cg\u3000x/a/memory.stat": "anon 0\n",
            **node_files(0, cpus="0", total=90000, free=90000),
        },
    )
    (tmp_path / "proc/self/mountinfo").write_bytes(
        b"1 2 0:9 / /mnt/b\xffd\x0c - x rw - tmpfs odd\x0b - rw\n"
        + "3 2 0:28 / /sys/fs/cg\u3000x rw - cgroup2 cgroup2 rw\n".encode()
    )
    assert [found.folder.name for found in memory_cgroups(root)] == ["a"]
    assert available_memory(root=root) == 4000


def test_a_file_system_without_a_number_is_found_among_odd_mounts(tmp_path):
    number = os.stat(tmp_path).st_dev
    major, minor = (0, os.minor(number)) if not os.major(number) else (0, 99)
    root = write_tree(tmp_path / "root", {"proc/self/status": "Name: x\n", "sys/dev/": ""})
    (root / "proc/self/mountinfo").write_bytes(
        b"1 2 0:9 / /mnt/b\x0c rw - tmpfs odd rw\n" + f"3 2 {major}:{minor} / / rw - zfs pool rw\n".encode()
    )
    with pytest.raises(OSError, match=r"lies on no block device|has no block device") as refusal:
        node_of(f"file:{tmp_path}", root=root)
    assert refusal.value.errno == errno.ENODEV


def test_nodes_up_to_the_last_that_a_kernel_can_have_with_holes_and_offline_cpus(tmp_path):
    files = {"sys/devices/system/node/online": "0,7,1023\n", "sys/devices/system/cpu/online": "0,8191\n"}
    files["proc/self/status"] = "Cpus_allowed_list:\t0-8191\nMems_allowed_list:\t0-1023\n"
    files |= node_files(0, cpus="0-3", total=4096, free=1, distance="10 20 254")
    files |= node_files(7, cpus="", total=1 << 44, distance="20 10")
    files |= node_files(1023, cpus="8190-8191", total=0, distance="254 30 10")
    machine = topology(write_tree(tmp_path, files))
    assert sorted(machine.nodes) == [0, 7, 1023]
    assert [machine.nodes[node].kind for node in (0, 7, 1023)] == ["ordinary", "no cpus", "no memory"]
    assert machine.nodes[1023].online_cpus == {8191} and machine.nodes[0].online_cpus == {0}
    assert machine.nodes[7].distances == {} and machine.nodes[0].distances == {0: 10, 7: 20, 1023: 254}
    assert machine.nodes[7].memory_total == 1 << 54
    assert machine.allowed_nodes == {0, 7} and machine.allowed_cpus == {0, 8191}


# What may stand in the path of a file that somebody maps, and trip a reader of lines or columns.
STEERED = ("a\rb", "a\r00:1 7 b", "\xa0\u3000\u2028", "\x85 - tmpfs tmpfs rw", "rw-p 00000000 00:01 4711 x")


@pytest.mark.parametrize("name", STEERED)
def test_whatever_a_mapped_file_is_called_its_neighbours_are_told(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(bytes(mmap.PAGESIZE))
    about = os.stat(file)
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as memory:
        address, size = _numa.extent_of(memory)
        [found] = areas(address, size)
        assert (found.path, found.inode) == (str(file), about.st_ino)
        assert Process(os.getpid(), mine()) in attached([about.st_dev]).to(about.st_dev, about.st_ino)


def test_a_name_cannot_speak_for_another_file(tmp_path):
    """The line of a process's maps that a path makes up, device and inode in their columns, is no line."""
    shm = os.stat("/dev/shm").st_dev
    mark = f"{os.major(shm):02x}:{os.minor(shm):02x}"
    file = tmp_path / f"a\r7f0000000000-7f0000001000 rw-s 00000000 {mark} 4711 b"
    file.write_bytes(bytes(mmap.PAGESIZE))
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ):
        assert attached([shm]).to(shm, 4711) == ()


def mine():
    with open("/proc/self/comm") as comm:
        return comm.read().removesuffix("\n")
