"""The node next to a device, on small machines of our own, recorded ones, and this one."""

import errno
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from needs import need
from trees import node_files, recorded, unpacked, write_tree

from zerosys import Affinity, Bind, PlacementError, SharedRegion, _numa, node_of, node_set, run_on
from zerosys.devices import pci_address
from zerosys.selection import cpu_set
from zerosys.sysfs import entries

ROOT = Path(__file__).parent.parent
BRIDGE = "sys/devices/pci0000:00/0000:00:01.0"
CARD = f"{BRIDGE}/0000:3b:00.0"


def machine(root, card=None, bridge=None, cpus=None, **files):
    """Two nodes of two CPUs, and a card behind a bridge, which tell what is given."""
    told = {f"{CARD}/numa_node": card, f"{BRIDGE}/numa_node": bridge, f"{CARD}/local_cpulist": cpus}
    write_tree(
        root,
        {
            "sys/devices/system/cpu/online": "0-3\n",
            **node_files(0, cpus="0-1", total=1000),
            **node_files(1, cpus="2-3", total=1000),
            f"{CARD}/": "",
            **{path: f"{text}\n" for path, text in told.items() if text is not None},
            **files,
        },
    )
    link(root, "sys/bus/pci/devices/0000:3b:00.0", CARD)
    return root


def link(root, name, target):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(root / target, path.parent))


def sources(affinity):
    return [(source.rpartition("/")[2], answer) for source, answer in affinity.tried]


def test_the_devices_own_word_comes_first(tmp_path):
    found = node_of("pci:3b:00.0", root=machine(tmp_path, card=1, bridge=0, cpus="0-1"))
    assert (found.node, found.source) == (1, f"/{CARD}/numa_node")
    assert found.tried == ((f"/{CARD}/numa_node", "1"),)
    assert (found.selector, found.device) == ("pci:3b:00.0", "0000:3b:00.0")


def test_minus_one_is_no_node_and_the_nearest_bridge_is_asked(tmp_path):
    found = node_of("pci:3b:00.0", root=machine(tmp_path, card=-1, bridge=1, cpus="0-1"))
    assert (found.node, found.source) == (1, f"/{BRIDGE}/numa_node")
    assert [answer for _, answer in found.tried] == ["-1", "1"]


def test_the_list_of_local_cpus_is_asked_last(tmp_path):
    found = node_of("pci:3b:00.0", root=machine(tmp_path, card=-1, bridge=-1, cpus="2"))
    assert (found.node, found.source) == (1, f"/{CARD}/local_cpulist")
    assert [answer for _, answer in found.tried] == ["-1", "-1", "CPU 2"]


@pytest.mark.parametrize(
    "cpus, answer", [("0-3", "CPU 0-3, which is every one"), ("1-2", "CPU 1-2"), (None, "none")]
)
def test_a_list_that_names_no_one_node_is_none(tmp_path, cpus, answer):
    found = node_of("pci:3b:00.0", root=machine(tmp_path, card=-1, cpus=cpus))
    assert (found.node, found.source) == (None, "")
    assert sources(found) == [("numa_node", "-1"), ("local_cpulist", answer)]


def test_a_missing_file_is_told_and_is_none(tmp_path):
    found = node_of("pci:3b:00.0", root=machine(tmp_path))
    assert found.node is None
    assert found.tried[0] == (f"/{CARD}", "neither it nor anything above it has a numa_node")


def test_no_node_is_never_made_up(tmp_path):
    """FAULTS N9: -1 became node 0 there, and nodes[-1] the last node."""
    root = machine(tmp_path, card=-1, cpus="0-3")
    found = node_of("pci:3b:00.0", root=root)
    for use in (found.__index__, lambda: Bind(found), lambda: ["a", "b"][found], lambda: node_set(found)):
        with pytest.raises(
            PlacementError, match=r"pci:3b:00\.0 has no node .*numa_node: -1.*name the node itself"
        ) as no:
            use()
        assert no.value.errno == errno.ENODEV
    with pytest.raises(PlacementError, match="name the node itself"):
        node_set("0,pci:3b:00.0", root=root)


def test_a_node_that_is_not_there_is_an_error_where_it_is_used(tmp_path):
    root = machine(tmp_path, card=7)
    assert node_of("pci:3b:00.0", root=root).node == 7
    with pytest.raises(PlacementError, match=r"node 7 does not exist; this machine's nodes: 0-1"):
        node_set("pci:3b:00.0", root=root)


def test_selectors_stand_in_sets_of_nodes_and_cpus(tmp_path):
    root = machine(tmp_path, card=1)
    assert node_set("pci:3b:00.0", root=root) == {1}
    assert node_set("!pci:3b:00.0", root=root) == {0}
    assert node_set("0,pci:3b:00.0", root=root) == {0, 1}
    assert cpu_set("pci:3b:00.0,0", root=root) == {0, 2, 3}
    assert cpu_set("!pci:3b:00.0", root=root) == {0, 1}


def test_interfaces_and_disks_are_known_by_their_hardware(tmp_path):
    root = machine(tmp_path, card=1)
    write_tree(root, {f"{CARD}/net/eth7/": "", f"{CARD}/nvme/nvme3/nvme3n1/nvme3n1p2/": ""})
    write_tree(root, {"sys/devices/virtual/net/lo/": ""})
    link(root, "sys/class/net/eth7", f"{CARD}/net/eth7")
    link(root, "sys/class/net/lo", "sys/devices/virtual/net/lo")
    link(root, "sys/class/block/nvme3n1p2", f"{CARD}/nvme/nvme3/nvme3n1/nvme3n1p2")
    assert node_of("netdev:eth7", root=root).node == node_of("block:nvme3n1p2", root=root).node == 1
    assert node_of("netdev:lo", root=root).node is None


def test_a_tree_that_was_copied_without_its_links_is_read_too(tmp_path):
    root = machine(tmp_path, card=1)
    write_tree(
        root,
        {
            "sys/class/net/eth9/device/numa_node": "1\n",
            "sys/class/block/sdz/device/numa_node": "0\n",
            "sys/bus/pci/devices/0000:77:00.0/numa_node": "1\n",
        },
    )
    asked = ("netdev:eth9", "block:sdz", "pci:77:00.0")
    assert [node_of(selector, root=root).node for selector in asked] == [1, 0, 1]


def test_what_is_made_of_several_has_a_node_if_they_agree(tmp_path):
    root = machine(tmp_path, card=1)
    other = "sys/devices/pci0000:80/0000:80:01.0"
    write_tree(
        root,
        {
            f"{other}/numa_node": "0\n",
            f"{other}/net/eth1/": "",
            f"{CARD}/net/eth0/": "",
            f"{CARD}/net/eth2/": "",
        },
    )
    write_tree(root, {"sys/devices/virtual/net/bond0/": "", "sys/devices/virtual/block/dm-0/slaves/": ""})
    for name in ("eth0", "eth2"):
        link(root, f"sys/devices/virtual/net/bond0/lower_{name}", f"{CARD}/net/{name}")
    link(root, "sys/class/net/bond0", "sys/devices/virtual/net/bond0")
    assert node_of("netdev:bond0", root=root).node == 1
    link(root, "sys/devices/virtual/net/bond0/lower_eth1", f"{other}/net/eth1")
    apart = node_of("netdev:bond0", root=root)
    assert apart.node is None and apart.tried[-1] == ("parts", "its 3 parts are on different nodes: 0, 1")
    write_tree(root, {f"{CARD}/block/sda/": ""})
    link(root, "sys/devices/virtual/block/dm-0/slaves/sda", f"{CARD}/block/sda")
    link(root, "sys/class/block/dm-0", "sys/devices/virtual/block/dm-0")
    assert node_of("block:dm-0", root=root).node == 1


def test_a_disk_of_several_paths_is_known_by_its_controllers(tmp_path):
    root = machine(tmp_path, card=1)
    write_tree(
        root, {f"{CARD}/nvme/nvme0/": "", "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/": ""}
    )
    link(root, f"{CARD}/nvme/nvme0/device", CARD)
    link(root, "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0", f"{CARD}/nvme/nvme0")
    link(root, "sys/class/block/nvme0n1", "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1")
    assert node_of("block:nvme0n1", root=root).node == 1


def test_a_file_is_known_by_the_disk_of_its_file_system(tmp_path):
    root = machine(tmp_path / "machine", card=1)
    write_tree(root, {f"{CARD}/block/sda/": ""})
    about = os.stat(tmp_path).st_dev
    if os.major(about):
        link(root, f"sys/dev/block/{os.major(about)}:{os.minor(about)}", f"{CARD}/block/sda")
    else:  # a file system without a number of its own tells its disk in mountinfo
        line = f"1 1 {os.major(about)}:{os.minor(about)} / / rw - btrfs /dev/sda rw\n"
        write_tree(root, {"proc/self/mountinfo": line})
        link(root, "sys/class/block/sda", f"{CARD}/block/sda")
    assert node_of(f"file:{tmp_path}", root=root).node == 1
    assert node_set(f"0,file:{tmp_path}", root=root) == {0, 1}


def test_gpus_are_counted_in_the_order_of_the_bus_and_known_by_their_uuid(tmp_path, monkeypatch):
    root = machine(tmp_path, card=1)
    second = "sys/devices/pci0000:80/0000:80:01.0"
    write_tree(
        root,
        {
            f"{CARD}/class": "0x030200\n", f"{CARD}/vendor": "0x10de\n",
            f"{second}/class": "0x030200\n", f"{second}/vendor": "0x10de\n", f"{second}/numa_node": "0\n",
            "proc/driver/nvidia/gpus/0000:3b:00.0/information": "Model: \tA\nGPU UUID: \tGPU-11-aa\n",
            "proc/driver/nvidia/gpus/0000:80:01.0/information": "Model: \tA\nGPU UUID: \tGPU-12-bb\n",
        },
    )  # fmt: skip
    link(root, "sys/bus/pci/devices/0000:80:01.0", second)
    asked = {
        None: [1, 0],
        "1,0": [0, 1],
        "1": [0],
        "GPU-12": [0],
        "GPU-12-bb,GPU-11": [0, 1],
        "MIG-GPU-11-aa/3/0": [1],
        "1,7,0": [0],
        "GPU-1": [],  # two begin like that
        "-1": [],
        "": [],
    }
    for setting, nodes in asked.items():
        if setting is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        assert [node_of(f"cuda:{n}", root=root).node for n in range(len(nodes))] == nodes
        with pytest.raises(PlacementError, match=f"CUDA counts {len(nodes)} devices"):
            node_of(f"cuda:{len(nodes)}", root=root)
    for name in ("gpu:GPU-12-bb", "gpu:1", "gpu:0000:80:01.0", "gpu:80:1.0", "gpu:MIG-GPU-12-bb/1/2"):
        assert node_of(name, root=root).node == 0
    with pytest.raises(PlacementError, match=r"known: GPU-11-aa, GPU-12-bb"):
        node_of("gpu:GPU-1", root=root)
    with pytest.raises(PlacementError, match="has 2 GPUs"):
        node_of("gpu:2", root=root)


def test_gpus_of_different_models_are_not_counted_by_guessing(tmp_path, monkeypatch):
    """CUDA puts the fastest first, which only its driver can tell."""
    root = machine(tmp_path, card=1)
    for number, model in enumerate("AB"):
        write_tree(root, {f"proc/driver/nvidia/gpus/0000:3b:00.{number}/information": f"Model: {model}\n"})
    with pytest.raises(PlacementError, match="no GPU of NVIDIA is known"):
        node_of("cuda:0", root=root)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert node_of("cuda:0", root=root).node == 1


@pytest.mark.parametrize(
    "text, address",
    [
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("3b:0.1", "0000:3b:00.1"),
        ("3B:1F", "0000:3b:1f.0"),
        ("3b:1f:7", "0000:3b:1f.7"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("0001:3b:1f:7", "0001:3b:1f.7"),
    ],
)
def test_pci_addresses_are_read_in_every_form(text, address):
    assert pci_address(text) == address


LONG = "9" * 5000


@pytest.mark.parametrize(
    "selector",
    [
        *("pci:", "pci:x", "pci:1", "cuda:x", "cuda:-1", "cuda:", "gpu:x", "usb:1", "eth0", ""),
        *("file:a\0b", f"ip:{LONG}", f"cuda:{LONG}", f"gpu:{LONG}", f"pci:{LONG}:x", f"usb:{LONG}"),
    ],
)
def test_selectors_that_cannot_be_read_are_value_errors(selector):
    with pytest.raises(ValueError) as wrong:
        node_of(selector)
    assert selector.partition(":")[2][:1] in str(wrong.value) and len(str(wrong.value)) < 250


@pytest.mark.parametrize(
    "selector",
    [
        "netdev:nosuch0",
        "netdev:..",
        "block:nosuch",
        "block:.",
        "block:/dev/nosuch",
        "block:/etc/passwd",
        "file:/no/such",
        "pci:ff:1f.7",
        "ip:no-such-host.invalid",
    ],
)
def test_devices_that_are_not_there_are_named(selector):
    with pytest.raises(PlacementError) as no:
        node_of(selector)
    assert no.value.errno == errno.ENODEV and selector in str(no.value)


def test_an_address_is_known_by_the_interface_that_leads_there():
    assert node_of("ip:127.0.0.1").device.endswith("/net/lo")
    assert node_of("ip:localhost").device.endswith("/net/lo")
    if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
        assert node_of("ip:::1").device.endswith("/net/lo")


def test_every_device_of_this_machine_answers():
    asked = [f"pci:{name}" for name in entries("/sys/bus/pci/devices")]
    asked += [f"netdev:{name}" for name in entries("/sys/class/net") if name != "bonding_masters"]
    asked += [f"block:{name}" for name in entries("/sys/class/block")]
    known = {None, *_numa.mems_allowed(), *range(_numa.max_node() + 1)}
    assert all(node_of(selector).node in known and node_of(selector).tried for selector in asked)


def test_without_any_library_of_nvidia_each_is_a_tried_entry():
    code = """
from zerosys import PlacementError, node_of
try:
    node_of("cuda:0")
except PlacementError as refusal:
    print(refusal)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    need("no GPU here", None if done.stdout else "this machine has a GPU")
    assert "NVML: libnvidia-ml.so.1: cannot open" in done.stdout
    assert "CUDA driver: libcuda.so.1: cannot open" in done.stdout and done.stderr == ""


def test_an_affinity_is_a_value_and_stands_for_its_node():
    found = Affinity(node=min(_numa.mems_allowed()), source="test", tried=())
    assert pickle.loads(pickle.dumps(found)) == found
    assert Bind(found) == Bind(found.node) and node_set(found) == {found.node}
    with SharedRegion.create("1MiB", node=found) as region:
        assert region.verify().ok and region.policy == Bind(found.node)
    with run_on(found):
        pass


@pytest.mark.parametrize("name", sorted(recorded()) or [""])
def test_every_device_of_the_recorded_machines_answers(name):
    need("data", None if name else "ZEROSYS_DATA names no folder with sysfs-trees")
    root = unpacked(name)
    nodes = {None, *(int(file.name[4:]) for file in root.glob("sys/devices/system/node/node[0-9]*"))} | {0}
    for file in root.glob("sys/bus/pci/devices/*"):
        found = node_of(f"pci:{file.name}", root=root)
        told = file / "numa_node"
        own = int(told.read_text().strip(" \n\0")) if told.exists() else -1
        assert found.node in nodes or found.node == own
        assert own < 0 or found.node == own
