"""zerosys stat: what it counts is what the process has, and what cannot be seen is said."""

import errno
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from commands import zerosys
from seccomp import Refuse, refused

from zerosys.cli.stat import tally
from zerosys.cli.stat.report import mib
from zerosys.cli.stat.smaps import Totals, transparent_huge
from zerosys.numa_maps import read_numa_maps

SCHEMAS = Path(__file__).resolve().parent.parent / "docs/schemas"


def child(code):
    """A process that ran *code*, said its pid, and waits until it is ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}\nimport time; print('ready', flush=True); time.sleep(600)"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def holder(tmp_path):
    """A process with 8 MiB of anonymous memory, and 2 MiB of a file whose name is odd."""
    path = tmp_path / "a file=b\n"
    code = f"""import mmap, os
memory = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(bytes(8 << 20))
fd = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 2 << 20)
shared = mmap.mmap(fd, 2 << 20)
shared.write(bytes(2 << 20))"""
    with child(code) as process:
        yield process.pid, str(path)
        process.kill()


def told(*arguments):
    done = zerosys("stat", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["processes"]


def test_the_three_counts_are_of_the_same_memory(holder):
    pid, path = holder
    [one] = told(str(pid))
    assert one["pid"] == pid and one["uid"] == os.getuid() and one["command"].startswith("python")
    for groups in ("policies", "page_sizes", "mapped"):
        assert sum(group["bytes"] for group in one[groups]) == one["bytes"] == sum(one["nodes"].values())
    assert sum(group["mappings"] for group in one["mapped"]) == one["mappings"]
    with open(f"/proc/{pid}/numa_maps") as file:
        assert len(file.readlines()) == one["mappings"]
    files = {group["file"]: group for group in one["mapped"]}
    assert files[path]["bytes"] == 2 << 20 and files[path]["kind"] == "file"
    anonymous = next(group for group in one["mapped"] if group["kind"] == "anonymous")
    assert anonymous["bytes"] >= 8 << 20


def test_the_table_tells_the_largest_and_sums_up_the_rest(holder):
    pid, _ = holder
    lines = zerosys("stat", str(pid), "--largest", "2").stdout.splitlines()
    assert lines[0].startswith(f"process {pid} (python")
    assert lines[1].split() == ["MiB", "N0", "TOTAL", "MAPPINGS"]
    titles = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in titles[2:]] == ["all", "policy", "page", "mapped"]
    assert len(lines[lines.index("mapped") :]) == 1 + 2 + 1 and lines[-1].split()[1] == "more"
    whole = zerosys("stat", str(pid), "--largest", "0").stdout
    assert " more" not in whole and "a file=b\\n" in whole


def test_each_mapping_is_a_line(holder):
    pid, path = holder
    done = zerosys("stat", str(pid), "--each", "--json")
    each = [json.loads(line) for line in done.stdout.splitlines()]
    schema = json.loads((SCHEMAS / "stat-each.json").read_text())
    for one in each:
        jsonschema.validate(one, schema, jsonschema.Draft202012Validator)
    assert [int(one["address"], 16) for one in each] == [one.address for one in read_numa_maps(pid)]
    assert path in {one["file"] for one in each}
    assert len(zerosys("stat", str(pid), "--each").stdout.splitlines()) == len(each)


def test_several_processes_are_told_and_a_dead_one_is_named(holder):
    pid, _ = holder
    done = zerosys("stat", str(pid), "4194305", "self", "--json")
    assert done.returncode == 1
    assert done.stderr == "zerosys stat: there is no process 4194305\n"
    assert len(json.loads(done.stdout)["processes"]) == 2
    assert zerosys("stat", "4194305").stdout == ""


def test_a_process_that_ended_and_was_not_waited_for_has_no_memory():
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        [one] = told(str(ended.pid))
        assert (one["mappings"], one["bytes"], one["swapped"]) == (0, 0, 0)
        assert "no memory of its own" in zerosys("stat", str(ended.pid)).stdout


def test_another_users_process_is_named_with_the_remedy():
    with subprocess.Popen(["setpriv", "--reuid=65534", "--clear-groups", "sleep", "60"]) as stranger:
        bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m", "zerosys", "stat"]
        for more in ([], ["--each"]):
            done = subprocess.run(
                [*bare, str(stranger.pid), *more], capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 1
            assert "belongs to another user" in done.stderr and "CAP_SYS_PTRACE" in done.stderr
        stranger.kill()


@pytest.mark.parametrize("word", ["x", "-1", "0", "1.5", "99999999999", "", "１"])
def test_what_is_no_pid_is_wrong_usage(word):
    done = zerosys("stat", "--", word)
    assert done.returncode == 2 and "is no process's number" in done.stderr


def test_more_lines_and_names_than_are_kept_are_counted_all_the_same(monkeypatch):
    whole = tally.Tally(os.getpid())
    monkeypatch.setattr(tally, "_LINES", 3)
    monkeypatch.setattr(tally, "_NAMES", 4)
    short = tally.Tally(os.getpid())
    assert short.all.mappings == pytest.approx(whole.all.mappings, abs=3)
    assert set(short.policies) == set(whole.policies)
    assert sum(use == "file" for use, _ in short.what) == 5 and ("file", tally.FURTHER) in short.what
    assert sum(group.mappings for group in short.what.values()) == short.all.mappings


def test_transparent_huge_pages_are_told_by_what_is_mapped():
    with mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.write(bytes(8 << 20))
        totals, found = Totals(os.getpid()), transparent_huge(os.getpid())
        enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
        if enabled.exists() and "[never]" not in enabled.read_text():
            assert found["other", ""] >= 2 << 20
        assert sum(found.values()) == totals.transparent_huge


def test_a_kernel_without_numa_is_told_so(tmp_path):
    (tmp_path / "proc/7").mkdir(parents=True)
    with pytest.raises(OSError, match="built without NUMA") as refusal:
        list(read_numa_maps(7, root=str(tmp_path)))
    assert refusal.value.errno == errno.ENOSYS


def test_small_sizes_are_not_shown_as_nothing():
    assert [mib(size) for size in (0, 4096, 52429, 1 << 20)] == ["0.0", "<0.1", "0.1", "1.0"]


def test_a_reader_that_goes_away_is_no_complaint(holder):
    pid, _ = holder
    command = f"{sys.executable} -m zerosys stat {pid} --each | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == "" and done.returncode in (0, 141)


def test_policy_calls_that_are_refused_do_not_matter():
    rules = [Refuse(call, errno.EPERM) for call in ("get_mempolicy", "move_pages", "mbind")]
    done = refused(rules, [sys.executable, "-m", "zerosys", "stat", "self", "--json"])
    assert (done.returncode, done.stderr) == (0, "")
