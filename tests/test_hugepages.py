"""Pools of huge pages by node, on this machine and on small ones of our own."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import need
from trees import node_files, write_tree

from zerosys import PlacementError, hugepages

ROOT = Path(__file__).parent.parent
MIB = 1 << 20
FOLDER = "sys/devices/system/node/node1/hugepages/hugepages-{}kB"


def refusal():
    """Why no page can be added to a pool here, or None if one can; the page goes back."""
    try:
        hugepages.reserve(1, min(hugepages.pools()))
    except (OSError, ValueError) as refused:
        return str(refused)
    hugepages.give_back(1, min(hugepages.pools()))
    return None


def machine(tmp_path, **files):
    """Node 1 with pools of two sizes, node 0 with none."""
    wanted = {"nr": 8, "free": 5, "surplus": 2}
    return write_tree(
        tmp_path,
        {
            **node_files(0, cpus="0", total=1000),
            **node_files(1, cpus="1", total=1000),
            **{FOLDER.format(2048) + f"/{name}_hugepages": f"{n}\n" for name, n in wanted.items()},
            FOLDER.format(1048576) + "/nr_hugepages": "0\n",
            "proc/meminfo": "Hugepagesize:       2048 kB\n",
            **files,
        },
    )


def test_pools_are_told_by_node_and_size(tmp_path):
    root = machine(tmp_path)
    told = hugepages.pools(root)
    assert list(told) == [0, 1] and told[0] == {} and list(told[1]) == [2 * MIB, 1024 * MIB]
    assert told[1][2 * MIB] == hugepages.Pool(node=1, size=2 * MIB, total=8, free=5, surplus=2)
    assert told[1][2 * MIB].lasting == 6
    assert hugepages.pool(1, root=root) == hugepages.pool(1, "2MiB", root=root) == told[1][2 * MIB]
    assert hugepages.default_size(root) == 2 * MIB


def test_what_is_reserved_comes_on_top_of_the_lasting_pages(tmp_path):
    root = machine(tmp_path)
    file = root / FOLDER.format(2048) / "nr_hugepages"
    hugepages.reserve(4, 1, root=root, strict=False)
    assert file.read_text() == "10"
    hugepages.give_back(3, 1, root=root)
    assert file.read_text() == "5"  # a file keeps the surplus of 2 that a kernel would count down


def test_arguments_that_mean_nothing_are_named(tmp_path):
    root = machine(tmp_path)
    with pytest.raises(PlacementError, match=r"node 7 does not exist; this machine's nodes: 0-1"):
        hugepages.reserve(1, 7, root=root)
    with pytest.raises(ValueError, match=r"no pages of 4 MiB in pools \(sizes: 2 MiB, 1 GiB\)"):
        hugepages.pool(1, "4MiB", root=root)
    with pytest.raises(ValueError, match="none: it was built without hugetlb"):
        hugepages.pool(0, root=root)
    (root / "sys/kernel/mm/hugepages/hugepages-2048kB").mkdir(parents=True)
    with pytest.raises(ValueError, match="node 0 has no pools of huge pages: it has no memory of its own"):
        hugepages.pool(0, root=root)
    with pytest.raises(ValueError, match="pages must be >= 0, not -1"):
        hugepages.reserve(-1, 1, root=root)
    with pytest.raises(
        ValueError, match="7 pages to give back, and the pool of 2 MiB pages of node 1 is set to 6"
    ):
        hugepages.give_back(7, 1, root=root)


def test_reserved_here_and_given_back():
    need("hugepages", refusal())
    node = min(hugepages.pools())
    before = hugepages.pool(node)
    with_more = hugepages.reserve(2, node)
    try:
        assert with_more.lasting >= before.lasting + 2 and with_more.total >= 2
    finally:
        after = hugepages.give_back(2, node)
    assert after.lasting <= with_more.lasting - 2


def test_without_the_right_it_is_an_error_with_the_remedy():
    need("root", None if os.geteuid() == 0 else "only root can become another user")
    code = """
import os, sys
from zerosys import hugepages
node = min(hugepages.pools())
hugepages.pool(node)
os.setuid(65534)
try:
    hugepages.reserve(1, node)
except PermissionError as refusal:
    print(refusal)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == ""
    assert f"[Errno {errno.EACCES}]" in done.stdout and "only root may set a pool" in done.stdout
    assert "nr_hugepages" in done.stdout


def test_what_a_read_only_sysfs_and_a_kernel_of_fixed_pools_say(tmp_path):
    pool = hugepages.Pool(node=1, size=1024 * MIB, total=0, free=0, surplus=0)
    assert "reserve on the host" in hugepages._remedy(OSError(errno.EROFS, ""), pool)
    assert "only at boot" in hugepages._remedy(OSError(errno.EINVAL, ""), pool)
    assert hugepages._remedy(OSError(errno.EIO, ""), pool) == ""


def test_more_than_a_node_has_is_refused_before_the_kernel_gathers_what_is_free(tmp_path):
    root = machine(tmp_path)
    with pytest.raises(OSError, match=r"5 pages asked of .* node 1, 0 granted") as refused:
        hugepages.reserve(5, 1, root=root)
    assert refused.value.errno == errno.ENOMEM
    assert (root / FOLDER.format(2048) / "nr_hugepages").read_text() == "8\n"
