"""zerosys doctor: what it finds here, and on machines that lack or refuse something."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from counts import nothing_left
from needs import need
from private_shm import run
from seccomp import CALLS, Refuse, refused
from trees import node_files, write_tree

from zerosys import doctor
from zerosys.doctor import calls, memory, places, system
from zerosys.doctor.finding import STATES, Finding, exit_status

DOCTOR = [sys.executable, "-m", "zerosys", "doctor"]


def told(done):
    """The findings of a run with --json, by what they are about."""
    found = json.loads(done.stdout)["findings"]
    return {finding["what"]: finding for finding in found}


def by_name(findings):
    return {finding.what: finding for finding in findings}


def test_each_finding_here_has_evidence_and_each_fault_a_remedy():
    findings = doctor.check()
    assert len(findings) >= 12
    assert len({finding.what for finding in findings}) == len(findings)
    for finding in findings:
        assert finding.state in STATES and finding.evidence
        assert finding.remedy or finding.state in ("ok", "absent")


def test_looking_leaves_nothing_behind():
    doctor.check()
    with nothing_left():
        for _ in range(20):
            doctor.check()


def test_the_status_is_that_of_the_worst():
    states = {"ok": 0, "absent": 0, "limited": 1, "broken": 2}
    for state, status in states.items():
        assert exit_status([Finding("a", "ok", "x"), Finding("b", state, "x")]) == status
    assert exit_status([]) == 0


def test_the_command_prints_them_in_lines_and_as_json():
    plain, as_json = (
        subprocess.run([*DOCTOR, *more], capture_output=True, text=True) for more in ((), ("--json",))
    )
    assert plain.stderr == as_json.stderr == ""
    assert plain.returncode == as_json.returncode == exit_status(doctor.check())
    lines = [line for line in plain.stdout.splitlines() if "->" not in line[:60]]
    assert len(lines) >= len(told(as_json)) >= 12


@pytest.mark.parametrize("call", [c for c in calls.CALLS if c.syscall in CALLS], ids=lambda c: c.name)
def test_a_call_that_seccomp_refuses_is_found_and_named(call):
    rules = {"mmap": None, "fcntl": Refuse("fcntl", errno.EPERM, arg=1, equals=37)}
    rule = rules.get(call.syscall, Refuse(call.syscall, errno.EPERM))
    if call.syscall == "madvise":
        rule = Refuse("madvise", errno.EPERM, arg=2, equals=23)
    if rule is None:
        rule = Refuse("memfd_create", errno.EPERM)  # what a mirror is made of
    done = refused([rule], [*DOCTOR, "--json"])
    assert done.stderr == ""
    found = told(done)[call.name]
    assert found["state"] == call.state and call.lost in found["evidence"] and "EPERM" in found["evidence"]
    assert "seccomp" in found["remedy"] and (call.syscall in found["remedy"] or rule.call == "memfd_create")
    assert done.returncode == (2 if call.state == "broken" or rule.call == "memfd_create" else 1)


def test_an_older_kernel_is_told_from_a_filter(monkeypatch):
    def lacking():
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(calls, "kernel", lambda: (5, 10))
    new = calls.Call("new", "new_call", (5, 14), lacking, "limited", "less works")
    old = calls.Call("old", "old_call", (2, 6), lacking, "limited", "less works")
    monkeypatch.setattr(calls, "filtered", lambda: False)
    assert [f.remedy.split(";")[0] for f in calls.check((new, old))] == [
        "run Linux 5.14 or newer",
        "run a kernel that was built with old",
    ]
    monkeypatch.setattr(calls, "filtered", lambda: True)
    assert "allow old_call in the seccomp profile" in calls.check((old,))[0].remedy


@pytest.mark.parametrize("rules", [[Refuse(c, errno.ENOSYS) for c in ("get_mempolicy", "mbind")]])
def test_without_numa_calls_it_is_silent_and_answers(rules):
    done = refused(rules, [*DOCTOR, "--json"])
    assert done.stderr == "" and done.returncode in (0, 1, 2)
    found = told(done)
    assert found["libnuma"]["state"] == "ok" and found["mbind"]["state"] != "ok"
    assert found["mbind"]["evidence"] == "ENOSYS: without it nothing can be placed"
    assert "allow mbind in the seccomp profile" in found["mbind"]["remedy"]


def test_a_machine_without_node_directories_is_limited(tmp_path):
    root = write_tree(tmp_path, {"proc/meminfo": "MemTotal: 1000 kB\n"})
    found = by_name(places.check(root))
    assert found["NUMA nodes"].state == "limited" and "mount /sys" in found["NUMA nodes"].remedy
    assert found["NUMA balancing"].state == "absent"


def test_a_cpuset_and_odd_nodes_are_told(tmp_path):
    root = write_tree(
        tmp_path,
        {
            **node_files(0, cpus="0-1", total=1000),
            **node_files(1, cpus="2-3", total=1000),
            **node_files(2, cpus="", total=1000),
            "sys/devices/system/cpu/online": "0-3\n",
            "proc/self/status": "Cpus_allowed_list:\t2-3\nMems_allowed_list:\t1\n",
            "proc/sys/kernel/numa_balancing": "1\n",
        },
    )
    found = by_name(places.check(root))
    assert found["NUMA nodes"].evidence == "nodes 0-2 (node 2: no cpus)"
    mine = found["what this process may use"]
    assert mine.evidence == "CPUs 2-3 of 0-3, memory on nodes 1 of 0-2" and mine.state == "limited"
    assert found["NUMA balancing"].state == "limited"
    assert found["NUMA balancing"].remedy == "sysctl kernel.numa_balancing=0"


def test_a_cgroup_with_little_left_is_told_with_its_file(tmp_path):
    group = "sys/fs/cgroup/tiny"
    root = write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/tiny\n",
            "proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            f"{group}/memory.max": f"{96 << 20}\n",
            f"{group}/memory.current": f"{80 << 20}\n",
            f"{group}/memory.stat": "active_file 0\n",
        },
    )
    found = by_name(memory.check(root))["cgroup memory limit"]
    assert found.state == "limited" and found.evidence.startswith("16 MiB of 96 MiB left")
    assert found.remedy.startswith(f"echo max > {tmp_path / group}/memory.max")
    (tmp_path / group / "memory.max").write_text("max\n")
    assert by_name(memory.check(root))["cgroup memory limit"].state == "ok"


def test_huge_pages_thp_swap_and_overcommit_are_read(tmp_path):
    thp = "sys/kernel/mm/transparent_hugepage"
    pool = "sys/devices/system/node/node{}/hugepages/hugepages-2048kB/{}"
    root = write_tree(
        tmp_path,
        {
            **node_files(0, cpus="0", total=1000),
            **node_files(1, cpus="1", total=1000),
            pool.format(1, "nr_hugepages"): "8\n",
            pool.format(1, "free_hugepages"): "5\n",
            f"{thp}/enabled": "always madvise [never]\n",
            f"{thp}/shmem_enabled": "always within_size advise [never] deny force\n",
            "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 1048576 0 -2\n",
            "proc/sys/vm/overcommit_memory": "2\n",
        },
    )
    found = by_name(memory.check(root))
    assert found["huge pages of 2 MiB"].evidence == "node 0: 0 free of 0, node 1: 5 free of 8"
    assert found["huge pages of 2 MiB"].state == "ok"
    assert found["transparent huge pages"].state == "limited"
    assert found["swap"].evidence.startswith("1 GiB")
    assert found["overcommit"].remedy == "sysctl vm.overcommit_memory=0"


NOBODY = """
import json, os, resource
from zerosys import doctor
doctor.check()  # all that it imports: nobody may not read the interpreter's folder
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = doctor.check()
print(json.dumps({"findings": [finding.to_dict() for finding in found]}))
raise SystemExit(doctor.exit_status(found))
"""


def test_as_nobody_with_small_limits_both_are_told_with_their_numbers():
    need("root", None if os.geteuid() == 0 else "only root can become nobody")
    done = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True)
    assert done.stderr == ""
    found = told(done)
    assert found["locked memory"]["state"] == "limited"
    assert found["locked memory"]["evidence"].startswith("RLIMIT_MEMLOCK is 64 KiB, and CAP_IPC_LOCK")
    assert "at most 256 in a process" in found["descriptors"]["evidence"]
    assert done.returncode >= 1


def test_a_dev_shm_that_is_full_or_absent_is_told():
    script = "mount -o remount,size=1m /dev/shm && head -c 1000000 /dev/zero >/dev/shm/full; exec "
    done = run(["bash", "-c", script + " ".join([*DOCTOR, "--json"])])
    found = told(done)["/dev/shm"]
    assert found["state"] == "limited" and "remount" in found["remedy"]


def test_pipes_are_tried(tmp_path):
    small = write_tree(tmp_path, {"proc/sys/fs/pipe-max-size": "65536\n"})
    found = by_name(system.check(small))["pipes"]
    assert found.state == "limited" and found.remedy == "sysctl fs.pipe-max-size=1048576"
    assert by_name(system.check(Path("/")))["pipes"].evidence.startswith("a pipe got ")


def test_without_a_gpu_it_says_why():
    from zerosys.cuda import memory_model
    from zerosys.doctor import gpu

    need("no-gpu", "there is one here" if memory_model(0) else None)
    (found,) = gpu.check()
    assert found.state == "absent" and found.evidence == memory_model(0).reason
