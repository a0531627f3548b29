"""The machine as sysfs tells it: this one, odd ones, and recorded ones."""

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import need
from trees import node_files, recorded, unpacked, write_tree

from zerosys import _numa
from zerosys.hmat import Access
from zerosys.machine import topology
from zerosys.nodes import format

ROOT = Path(__file__).parent.parent
#: Where hwloc hides what the kernel said: NUMA information it judges broken.
HIDDEN = {"8em64t-2s2ca2c-buggynuma": set(range(1, 8)), "fakeheterocpunuma": {4, 5}}
#: hwloc's words for what memory is made of, where they are not ours.
MEDIA = {"GPUMemory": "GPU"}


def test_this_machine_agrees_with_libnuma_and_the_kernel():
    sizes = {node: _numa.node_size(node)[0] for node in _numa.mems_allowed()}
    machine = topology()
    assert machine.available
    assert max(machine.nodes) == _numa.max_node()
    assert machine.allowed_nodes == _numa.mems_allowed()
    assert machine.allowed_cpus == os.sched_getaffinity(0)
    for id, node in machine.nodes.items():
        # a virtual machine's memory can grow and shrink while we look
        edges = sizes.get(id, 0), _numa.node_size(id)[0]
        assert min(edges) <= node.memory_total <= max(edges)
        assert node.online_cpus <= node.cpus
        assert all(_numa.node_of_cpu(cpu) == id == machine.node_of_cpu(cpu) for cpu in node.online_cpus)
        assert all(_numa.distance(id, other) == far for other, far in node.distances.items())


@pytest.mark.parametrize("name", sorted(recorded()) or [""])
def test_recorded_machine_is_read_as_hwloc_read_it(name):
    need("data", None if name else "ZEROSYS_DATA names no folder with sysfs-trees")
    expected = recorded()[name]
    machine = topology(unpacked(name))
    nodes = {node["id"]: node for node in expected["nodes"]}
    assert set(machine.nodes) - HIDDEN.get(name, set()) == set(nodes)
    for id, told in nodes.items():
        node = machine.nodes[id]
        assert node.memory_total == told["memory_bytes"]
        assert format(machine.nearest_cpus(id)) == told["cpus"]
        assert node.medium == MEDIA.get(told["subtype"], told["subtype"])
        assert (node.kind == "device") == (told["subtype"] == "GPUMemory") == (node.device is not None)
    if expected["distances"] and name not in HIDDEN:
        ids = expected["distances"]["indexes"]
        seen = [machine.nodes[a].distances[b] for a in ids for b in ids]
        assert seen == expected["distances"]["values"]


def test_gaps_in_the_numbers_and_nodes_without_cpus_or_memory(tmp_path):
    root = write_tree(
        tmp_path,
        {
            "sys/devices/system/cpu/online": "0-2\n",
            "sys/devices/system/node/online": "0,2,7\n",
            **node_files(0, cpus="0-1", total=1000, free=400, distance="10 20 30"),
            **node_files(2, cpus="2-3", total=0, distance="20 10 40"),
            **node_files(7, cpus="", total=500, distance="30 40 10"),
            "sys/devices/system/node/node7/hugepages/hugepages-2048kB/nr_hugepages": "8\n",
            "sys/devices/system/node/node7/hugepages/hugepages-2048kB/free_hugepages": "5\n",
            "proc/self/status": "Name:\tx\nMems_allowed_list:\t0,7\nCpus_allowed_list:\t1-3\n",
        },
    )
    machine = topology(root)
    assert sorted(machine.nodes) == [0, 2, 7]
    assert [machine.nodes[id].kind for id in (0, 2, 7)] == ["ordinary", "no memory", "no cpus"]
    assert machine.nodes[2].cpus == {2, 3} and machine.nodes[2].online_cpus == {2}
    assert machine.nodes[0].memory_free == 400 * 1024
    assert machine.nodes[2].distances == {0: 20, 2: 10, 7: 40}
    assert machine.nodes[7].huge_pages == {2 << 20: (8, 5)}
    assert machine.nodes_with_cpus == {0, 2} and machine.nodes_with_memory == {0, 7}
    assert machine.allowed_nodes == {0, 7} and machine.allowed_cpus == {1, 2}
    assert machine.node_of_cpu(2) == 2 and machine.node_of_cpu(9) is None


def test_no_node_directory_is_one_assumed_node_with_everything(tmp_path):
    root = write_tree(
        tmp_path,
        {
            "sys/devices/system/cpu/cpu0/": "",
            "sys/devices/system/cpu/cpu1/online": "1\n",
            "sys/devices/system/cpu/cpu2/online": "0\n",
            "sys/devices/system/cpu/cpufreq/": "",
            "proc/meminfo": "MemTotal: 64 kB\nMemFree: 8 kB\nHugePages_Total: 3\n",
        },
    )
    machine = topology(root)
    assert machine.available is False
    assert machine.nodes[0].cpus == machine.online_cpus == {0, 1}
    assert (machine.nodes[0].memory_total, machine.nodes[0].memory_free) == (65536, 8192)
    assert machine.allowed_nodes == {0}


def test_without_sysfs_the_cpus_are_those_that_this_process_may_run_on(tmp_path):
    root = write_tree(
        tmp_path,
        {"proc/self/status": "Cpus_allowed_list:\t1,3\n", "proc/meminfo": "MemTotal: 64 kB\n"},
    )
    machine = topology(root)
    assert machine.online_cpus == machine.nodes[0].online_cpus == machine.allowed_cpus == {1, 3}
    assert machine.nodes_with_cpus == {0}


def test_cpumap_stands_in_for_cpulist_and_a_wrong_distance_row_for_none(tmp_path):
    root = write_tree(
        tmp_path,
        {
            "sys/devices/system/cpu/online": "0-63\n",
            "sys/devices/system/node/node1/cpumap": "1,00000003\n",
            "sys/devices/system/node/node1/distance": "21 10\n",
            "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 4 kB\n",
        },
    )
    node = topology(root).nodes[1]
    assert node.cpus == {0, 1, 32}
    assert node.distances == {}


def test_nodes_of_every_kind_are_told_apart_and_all_leaves_out_devices(tmp_path):
    access = "sys/devices/system/node/node3/access"
    root = write_tree(
        tmp_path,
        {
            "sys/devices/system/cpu/online": "0-3\n",
            **node_files(0, cpus="0-1", total=1000, distance="10 20 17 40 30"),
            **node_files(1, cpus="2-3", total=0, distance="20 10 28 30 40"),
            **node_files(3, cpus="", total=500, distance="17 28 10 9 9"),
            **node_files(4, cpus="", total=700, distance="40 30 9 10 9"),
            **node_files(9, cpus="", total=300, distance="30 40 9 9 10"),
            **{f"{access}0/initiators/{name}": "" for name in ("node0/", "node1/")},
            **{f"{access}1/initiators/{name}": "" for name in ("node1/", "power/")},
            f"{access}1/initiators/read_bandwidth": "20000\n",
            f"{access}1/initiators/write_bandwidth": "15000\n",
            f"{access}1/initiators/read_latency": "350\n",
            "sys/devices/virtual/memory_tiering/memory_tier4/nodelist": "0\n",
            "sys/devices/virtual/memory_tiering/memory_tier22/nodelist": "3-4\n",
            "sys/devices/virtual/memory_tiering/memory_tier22/power/": "",
            "proc/driver/nvidia/gpus/0009:01:00.0/numa_status": "Node:      9\nStatus:    online\n",
            "sys/bus/pci/devices/0009:01:00.0/local_cpus": "00000000,00000004\n",
            "sys/devices/pci0/ACPI0017:00/dax/target_node": "4\n",
            "proc/self/status": "Mems_allowed_list:\t0-3,9\nCpus_allowed_list:\t1-2\n",
            "proc/sys/kernel/numa_balancing": "2\n",
        },
    )
    (tmp_path / "sys/bus/dax/drivers/kmem").mkdir(parents=True)
    (tmp_path / "sys/bus/dax/drivers/kmem/dax0.0").symlink_to("../../../../devices/pci0/ACPI0017:00/dax")
    machine = topology(root)
    nodes = machine.nodes
    assert {id: node.kind for id, node in nodes.items()} == {
        0: "ordinary", 1: "no memory", 3: "no cpus", 4: "no cpus", 9: "device",
    }  # fmt: skip
    assert [nodes[id].allowed for id in (0, 1, 3, 4, 9)] == [True, False, True, False, True]
    assert machine.allowed_nodes == {0, 3, 9} and machine.all_nodes == {0, 3}
    assert nodes[1].allowed_cpus == {2} and machine.balancing is True
    assert (nodes[4].medium, nodes[9].medium, nodes[0].medium) == ("CXL", "GPU", None)
    assert (nodes[9].device.address, nodes[9].device.cpus) == ("0009:01:00.0", {2})
    assert [nodes[id].tier for id in (0, 1, 3, 4)] == [4, None, 22, 22]
    assert nodes[3].access[0].initiators == {0, 1} and nodes[3].access[0].read_bandwidth is None
    assert nodes[3].access[1] == Access(
        initiators=frozenset({1}),
        read_bandwidth=20000,
        write_bandwidth=15000,
        read_latency=350,
        write_latency=None,
    )
    # from CPUs (class 1) before distances; distances where no access is told; a device's own CPUs
    assert [machine.nearest_cpus(id) for id in (3, 4, 9, 1)] == [{2, 3}, {2, 3}, {2}, {2, 3}]


def test_available_memory_of_a_node_is_what_is_free_and_what_can_be_dropped(tmp_path):
    lines = {
        "MemTotal": 1000,
        "MemFree": 100,
        "Active(file)": 20,
        "Inactive(file)": 30,
        "SReclaimable": 4,
        "Slab": 9,
    }
    meminfo = "".join(f"Node 0 {name}: {size:8} kB\n" for name, size in lines.items())
    root = write_tree(
        tmp_path, {"sys/devices/system/cpu/online": "0\n", "sys/devices/system/node/node0/meminfo": meminfo}
    )
    assert topology(root).nodes[0].memory_available == 154 * 1024


def test_what_was_told_is_a_value(tmp_path):
    machine = topology()
    node = machine.nodes[min(machine.nodes)]
    assert pickle.loads(pickle.dumps(machine)) == machine
    assert list(node.fields())[:2] == ["id", "cpus"] and f"id={node.id}" in repr(node)
    with pytest.raises(AttributeError, match="does not change"):
        node.id = 7
    with pytest.raises(AttributeError, match="does not change"):
        del node.id
    with pytest.raises(TypeError, match=r"Access: missing or unknown: initiators, .*, speed"):
        Access(speed=3)
    assert node != machine and node != 3


def test_a_thread_is_told_what_it_is_allowed_itself():
    cpu = min(os.sched_getaffinity(0))
    told = []

    def pinned():
        os.sched_setaffinity(0, {cpu})
        told.append(topology().allowed_cpus)

    thread = threading.Thread(target=pinned)
    thread.start()
    thread.join()
    assert told == [{cpu}]


def test_reading_the_machine_loads_nothing_heavy():
    heavy = ("dataclasses", "enum", "json", "pathlib", "re", "typing")
    code = f"""
import sys
from zerosys.machine import topology
topology()
print([name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_root_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        topology(tmp_path / "nowhere")


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "proc/self/status",
                "proc/meminfo",
                "sys/devices/system/cpu/online",
                "sys/devices/system/node/online",
                "sys/devices/system/node/node3/cpulist",
                "sys/devices/system/node/node3/cpumap",
                "sys/devices/system/node/node3/meminfo",
                "sys/devices/system/node/node3/distance",
                "sys/devices/system/node/nodex/meminfo",
                "proc/driver/nvidia/gpus/0/numa_status",
                "proc/sys/kernel/numa_balancing",
                "sys/bus/pci/devices/0/local_cpulist",
                "sys/bus/dax/drivers/kmem/dax0/target_node",
                "sys/devices/system/node/node3/access0/initiators/read_latency",
                "sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
            ]
        ),
        st.sampled_from(
            [
                "",
                "\n",
                "0-1\n",
                "7",
                "10 20 30\n",
                "Node 3 MemTotal: 8 kB\n",
                "MemTotal: 8 kB\nx\n",
                "Mems_allowed_list:\t0,3\n",
                "Cpus_allowed_list:\t\n",
                "Node: none\n",
                "00000000,00000003\n",
            ]
        ),
        min_size=1,
    )
)
def test_missing_and_empty_files_are_a_machine_with_less(files):
    """Whatever is not told is absent; what cannot be read is a ValueError, and nothing else."""
    with TemporaryDirectory() as folder:
        try:
            machine = topology(write_tree(Path(folder), files))
        except ValueError:
            return
    assert machine.nodes
    assert machine.allowed_nodes <= machine.nodes.keys()
    assert machine.allowed_cpus <= machine.online_cpus


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("sys/devices/system/node/online", "0,,1"),
        ("sys/devices/system/cpu/online", "0-x"),
        ("sys/devices/system/node/node0/cpulist", "3-1"),
        ("sys/devices/system/node/node1/cpumap", "zz"),
        ("sys/devices/system/node/node0/distance", "10 near"),
        ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: much kB"),
        ("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "²"),
    ],
)
def test_a_file_that_says_something_else_than_the_kernel_does_is_named(tmp_path, file, said):
    files = {
        **node_files(0, cpus="0", total=9, distance="10 20"),
        "sys/devices/system/node/node1/meminfo": "",
    }
    root = write_tree(tmp_path, {**files, file: f"{said}\n"})
    with pytest.raises(ValueError) as wrong:
        topology(root)
    assert str(wrong.value).startswith(f"{root}/{file}: ")
