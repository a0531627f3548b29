"""How much memory can be had, on machines that the tests write, and on this one."""

import errno
import os

import pytest
from trees import node_files, write_tree

from zerosys.cgroups import memory_cgroups
from zerosys.errors import PlacementError
from zerosys.limits import Headroom, available_memory, require_memory
from zerosys.machine import topology

MIB = 1 << 20
UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def machine(root, *, free=0, more=None):
    """A machine with *free* kB free, and 1000 kB of file cache and slab, on node 0 and as a whole."""
    return write_tree(
        root,
        {
            "proc/meminfo": f"MemTotal: 90000 kB\nMemFree: 1 kB\nMemAvailable: {free + 1000} kB\n",
            **node_files(0, cpus="0", total=50000, free=free),
            "sys/devices/system/node/node0/meminfo": f"Node 0 MemTotal: 50000 kB\nNode 0 MemFree: {free} kB\nNode 0 Active(file): 500 kB\n"
            "Node 0 Inactive(file): 300 kB\nNode 0 Inactive(anon): 9999 kB\nNode 0 SReclaimable: 200 kB\n"
            "Node 0 HugePages_Free: 7\n",
            "sys/devices/system/node/has_memory": "0-1\n",
            **(more or {}),
        },
    )


def group(path, maximum, current, *, cache=0, top="sys/fs/cgroup"):
    folder = f"{top}/{path}".rstrip("/")
    return {
        f"{folder}/memory.max": f"{maximum}\n",
        f"{folder}/memory.current": f"{current}\n",
        f"{folder}/memory.stat": f"anon 5\nactive_file {cache}\ninactive_file 0\nslab_reclaimable 0\n",
    }


def test_what_this_machine_has_left_is_less_than_it_has():
    assert 0 < available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for node in topology().nodes_with_memory:
        assert available_memory(node) > 0
    require_memory(1)
    with pytest.raises(OSError, match="1 EiB asked, but") as refusal:
        require_memory(1 << 60)
    assert refusal.value.errno == errno.ENOMEM
    for call in (available_memory, lambda node: require_memory(1, [0, node])):
        with pytest.raises(PlacementError, match="node 4096 does not exist; this machine's nodes: 0"):
            call(4096)


def test_file_cache_and_slab_count_and_the_kernels_low_mark_does_not(tmp_path):
    root = machine(
        tmp_path,
        free=3000,
        more={
            "proc/zoneinfo": "Node 0, zone   Normal\n  pages free 9\n        min      1\n        low      10\n"
            "        high     20\nNode 1, zone   Normal\n        low      99\n"
        },
    )
    assert available_memory(0, root=root) == 4000 * 1024 - 10 * os.sysconf("SC_PAGE_SIZE")
    assert available_memory(root=root) == 4000 * 1024


def test_refusal_names_the_limit_both_numbers_and_the_remedy(tmp_path):
    text = r"900 MiB asked, but node 0 has 4 MiB left: take another node.*force=True"
    with pytest.raises(OSError, match=text):
        require_memory(900 * MIB, [0], root=machine(tmp_path, free=3096))


def test_every_cgroup_up_to_the_root_bounds(tmp_path):
    root = machine(
        tmp_path,
        free=1 << 20,
        more={
            "proc/self/cgroup": "0::/a/b\n",
            "proc/self/mountinfo": UNIFIED,
            **group("a/b", "max", 5),
            **group("a", 100 * MIB, 30 * MIB, cache=10 * MIB),
        },
    )
    assert [str(found.folder.relative_to(root)) for found in memory_cgroups(root)] == [
        "sys/fs/cgroup/a/b",
        "sys/fs/cgroup/a",
    ]
    assert available_memory(root=root) == 80 * MIB
    require_memory(80 * MIB, root=root)
    text = r"81 MiB asked, but cgroup .*/a \(memory.max is 100 MiB\) has 80 MiB left"
    with pytest.raises(OSError, match=text):
        require_memory(81 * MIB, root=root)


def test_cgroup_namespace_that_shows_a_part_of_the_tree(tmp_path):
    """A container without its own cgroup namespace sees its folder mounted, and its whole path."""
    root = machine(
        tmp_path,
        free=1 << 20,
        more={
            "proc/self/cgroup": "0::/docker/c1/in\n",
            "proc/self/mountinfo": "1 2 0:28 /docker/c1 /sys/fs/my\\040cgroup rw shared:9 - cgroup2 none rw\n",
            **group("in", "max", 0, top="sys/fs/my cgroup"),
            **group("", 7 * MIB, 2 * MIB, top="sys/fs/my cgroup"),
        },
    )
    assert available_memory(root=root) == 5 * MIB


def test_mount_of_another_part_of_the_tree_bounds_nothing(tmp_path):
    root = machine(
        tmp_path,
        free=1 << 20,
        more={"proc/self/cgroup": "0::/../other\n", "proc/self/mountinfo": UNIFIED, **group("", 1, 1)},
    )
    assert memory_cgroups(root) == []


def test_cgroup_v1_limits_and_its_word_for_no_limit(tmp_path):
    top = "sys/fs/cgroup/memory"
    root = machine(
        tmp_path,
        free=1 << 20,
        more={
            "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/\n0::/\n",
            "proc/self/mountinfo": "1 2 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "1 2 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "1 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            f"{top}/memory.limit_in_bytes": "9223372036854771712\n",
            f"{top}/memory.usage_in_bytes": "4096\n",
            f"{top}/x/memory.limit_in_bytes": f"{9 * MIB}\n",
            f"{top}/x/memory.usage_in_bytes": f"{4 * MIB}\n",
            f"{top}/x/memory.stat": f"total_inactive_file {MIB}\ntotal_active_file 0\n",
        },
    )
    assert available_memory(root=root) == 6 * MIB


def test_huge_pages_are_those_free_on_the_node_and_not_reserved(tmp_path):
    def pool(folder, **numbers):
        return {f"{folder}/hugepages/hugepages-2048kB/{name}": f"{n}\n" for name, n in numbers.items()}

    root = machine(
        tmp_path,
        free=1 << 20,
        more={
            **pool("sys/kernel/mm", free_hugepages=12, resv_hugepages=3, surplus_hugepages=0),
            **pool("sys/devices/system/node/node0", free_hugepages=10),
            **pool("sys/devices/system/node/node1", free_hugepages=2),
        },
    )
    assert Headroom([1], 2 * MIB, root=root).available() == 4 * MIB
    assert Headroom([0], 2 * MIB, root=root).available() == 18 * MIB  # 9 pages: 3 are someone's
    assert Headroom(None, 2 * MIB, root=root).available() == 18 * MIB
    text = r"6 MiB asked, but the pool of 2 MiB pages of node 1 has 4 MiB left: write"
    with pytest.raises(OSError, match=text):
        require_memory(6 * MIB, [1], huge_page=2 * MIB, root=root)


def test_cpuset_confines_what_is_left_to_its_nodes(tmp_path):
    root = machine(tmp_path, free=3000, more={"proc/self/status": "Mems_allowed_list:\t0\n"})
    for nodes in (None, (), frozenset()):
        with pytest.raises(OSError, match="node 0 has"):
            require_memory(1 << 40, nodes, root=root)


def test_a_node_directory_without_nodes_is_the_whole_machine(tmp_path):
    files = {"proc/meminfo": "MemTotal: 90 kB\nMemFree: 40 kB\n", "sys/devices/system/node/": ""}
    assert available_memory(0, root=write_tree(tmp_path, files)) == 40 * 1024
