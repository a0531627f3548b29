"""``zerosys run``: numactl's options in any order, causes in words, exit codes that tell whose they are."""

import errno
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import jsonschema
import pytest
from commands import zerosys
from needs import need
from seccomp import POLICY_CALLS, Refuse, refused
from trees import recorded, unpacked, write_tree

import zerosys as package
from zerosys import _numa
from zerosys.cli import hardware
from zerosys.cli.run import report
from zerosys.cli.run.plan import Asked, Plan
from zerosys.locality import node_of
from zerosys.machine import topology

# What a command sees of its placement: the CPUs, and the policy of its memory.
SEEN = "grep ^Cpus_allowed_list: /proc/self/status; sed 's/ file=.*//; s/[^ ]* //; q' /proc/self/numa_maps"
SHOW = ("sh", "-c", SEEN)
TREE = Path(__file__).resolve().parent.parent
MACHINE = topology()
NODE = min(MACHINE.allowed_nodes)
CPU = min(MACHINE.allowed_cpus)
NO_NODE = max(MACHINE.nodes) + 1
NO_CPU = max(MACHINE.online_cpus) + 1


def test_the_command_gets_the_cpus_and_the_policy():
    done = zerosys("run", "-m", str(NODE), "--physcpubind", str(CPU), *SHOW)
    assert done.stdout == f"Cpus_allowed_list:\t{CPU}\nbind:{NODE}\n" and done.stderr == ""


@pytest.mark.parametrize(
    ("line", "policy"),
    [
        ("--interleave=all", "interleave:"),
        ("--preferred {node}", "prefer:{node}"),
        ("-P {node}", "prefer (many):{node}"),
        ("-l", "local"),
        ("-m {node} -b", "bind"),
        ("-b -m {node}", "bind"),
        ("-N +0 -m same", "bind:{node}"),
    ],
)
def test_policies_reach_the_command_whatever_the_order(line, policy):
    done = zerosys("run", *line.format(node=NODE).split(), *SHOW)
    assert done.stdout.splitlines()[1].startswith(policy.format(node=NODE)), done.stderr


# --- exit codes (FAULTS N10) ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("-m {node} sh -c 'exit 7'", 7),
        ("-- /nonexistent", 127),
        ("no-such-command", 127),
        ("/etc/passwd", 126),
        ("/etc", 126),
        ("-m {absent} true", 125),
        ("--membindd 0 true", 125),
        ("-m", 125),
        ("", 125),
        ("-m {node} -i {node} true", 125),
        ("--json true", 125),
        ("--all --allowed-only true", 125),
        ("--balancing true", 125),
        ("-p {node},{absent} true", 125),
    ],
)
def test_exit_codes_tell_whose_failure_it_is(line, code):
    line = line.format(node=NODE, absent=NO_NODE)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m zerosys run {line}"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code
    assert (done.stderr == "") == (code == 7)


def test_a_killed_command_is_seen_as_such():
    assert zerosys("run", "-m", str(NODE), "sh", "-c", "kill -9 $$").returncode == -9


def test_the_commands_own_options_are_its_own():
    done = zerosys("run", "-m", str(NODE), "echo", "--membind=9", "-N", "--", "--plan")
    assert done.stdout == "--membind=9 -N -- --plan\n"


# --- causes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (f"-m {NO_NODE}", f"node {NO_NODE} does not exist"),
        (f"-N {NO_NODE}", f"node {NO_NODE} does not exist"),
        (f"-C {NO_CPU}", f"CPU {NO_CPU} does not exist"),
        ("-m x", "'x' .* neither numbers"),
        ("-m same", '"same" repeats'),
        ("-p all,x", "neither numbers"),
        ("--prefered 0", r"did you mean '--preferred'\?"),
    ],
)
def test_a_refusal_says_why(line, text):
    done = zerosys("run", *line.split(), "true")
    assert done.returncode == 125 and re.search(text, done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def test_a_cpu_beyond_the_affinity_needs_all():
    need("two-cpus", None if len(MACHINE.allowed_cpus) > 1 else "this machine has one CPU")
    other = max(MACHINE.allowed_cpus)
    own = {"preexec_fn": lambda: os.sched_setaffinity(0, {CPU})}
    done = zerosys("run", "-C", str(other), *SHOW, **own)
    assert done.returncode == 125 and f"({CPU}): --all goes beyond" in done.stderr
    assert f"list:\t{other}\n" in zerosys("run", "-C", str(other), "--all", *SHOW, **own).stdout
    both = f"{CPU},{other}"
    assert f"list:\t{CPU}\n" in zerosys("run", "-C", both, "--allowed-only", *SHOW, **own).stdout
    assert zerosys("run", "-C", str(other), "--allowed-only", "true", **own).returncode == 125
    best = zerosys("run", "-C", f"{both},{NO_CPU}", "--best-effort", *SHOW, **own)
    assert f"list:\t{CPU}\n" in best.stdout and f"CPU {NO_CPU} is not online" in best.stderr


# --- best effort (FAULTS N1, N5) ----------------------------------------------------------------


def test_best_effort_keeps_what_can_be_had_and_names_the_rest():
    done = zerosys("run", "--best-effort", "-m", f"{NODE},{NO_NODE}", "-N", f"{NODE},{NO_NODE}", *SHOW)
    assert done.returncode == 0 and done.stdout.endswith(f"bind:{NODE}\n")
    assert done.stderr.count(f"node {NO_NODE} does not exist") == 2
    done = zerosys("run", "--best-effort", "-m", str(NO_NODE), "-C", str(CPU), *SHOW)
    assert done.stdout == f"Cpus_allowed_list:\t{CPU}\ndefault\n"


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_under_a_filter_the_cpus_stay_and_the_memory_is_left_out(error):
    rules = [Refuse(call, error) for call in POLICY_CALLS]
    command = [sys.executable, "-m", "zerosys", "run", "-m", str(NODE), "-C", str(CPU)]
    strict = refused(rules, [*command, "echo", "ran"])
    assert (strict.returncode, strict.stdout) == (125, "")
    assert re.search(r"set_mempolicy: .*; a seccomp filter guards this process.*SYS_NICE", strict.stderr)
    best = refused(
        rules, [*command, "--best-effort", *SHOW[:2], "grep ^Cpus_allowed_list: /proc/self/status"]
    )
    assert (best.returncode, best.stdout) == (0, f"Cpus_allowed_list:\t{CPU}\n")
    assert "set_mempolicy" in best.stderr


def test_a_policy_that_cannot_be_read_back_is_no_success():
    rules = [Refuse("get_mempolicy", errno.EPERM)]
    command = [sys.executable, "-m", "zerosys", "run", "-m", str(NODE), "true"]
    done = refused(rules, command)
    assert done.returncode == 125 and "get_mempolicy: Operation not permitted" in done.stderr


def test_without_numa_there_is_one_node_and_cpus_can_be_bound():
    rules = [Refuse(call, errno.ENOSYS) for call in POLICY_CALLS]
    quiet = refused(rules, "import zerosys")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    done = refused(rules, [sys.executable, "-m", "zerosys", "hardware"])
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("available: ")
    done = refused(rules, [sys.executable, "-m", "zerosys", "run", "-N", str(NODE), "echo", "ran"])
    assert (done.returncode, done.stdout) == (0, "ran\n")
    done = refused(rules, [sys.executable, "-m", "zerosys", "show"])
    assert done.returncode == 0 and "policy: none" in done.stdout


# --- next to a device (FAULTS N9) -------------------------------------------------------------------


def device(folder, node):
    """A machine's root in which network device eth7 says that it is on *node*."""
    place = "sys/devices/pci0000:00/0000:00:05.0"
    root = write_tree(folder, {f"{place}/numa_node": f"{node}\n", f"{place}/net/eth7/": ""})
    (root / "sys/class/net").mkdir(parents=True)
    (root / "sys/class/net/eth7").symlink_to(f"../../../{place}/net/eth7")
    (root / place / "net/eth7/device").symlink_to("../..")
    return root


def plan_of(monkeypatch, root, line):
    """The plan of *line*, where devices are those below *root*."""
    monkeypatch.setattr("zerosys.locality.node_of", partial(node_of, root=root))
    return Plan(Asked(line.split()))


def test_a_devices_node_gives_cpus_and_memory(tmp_path, monkeypatch):
    root = device(tmp_path, NODE)
    plan = plan_of(monkeypatch, root, "--nic eth7 true")
    assert plan.cpus == MACHINE.nodes[NODE].online_cpus
    assert (plan.mode, plan.members) == (_numa.MPOL_BIND, {NODE})
    assert f"netdev:eth7  node {NODE}; " in report.text(plan)
    (told,) = json.loads(report.as_json(plan))["devices"]
    assert told["node"] == NODE and told["tried"] and "numa_node" in told["source"]


def test_what_is_named_goes_before_the_device(tmp_path, monkeypatch):
    root = device(tmp_path, NODE)
    plan = plan_of(monkeypatch, root, f"--nic eth7 -C {CPU} -i all true")
    assert plan.cpus == {CPU} and plan.mode == _numa.MPOL_INTERLEAVE
    assert plan_of(monkeypatch, root, "-m netdev:eth7 true").members == {NODE}


@pytest.mark.parametrize("node", [-1, NO_NODE])
def test_a_device_without_a_node_of_ours_is_an_error_or_left_out(tmp_path, monkeypatch, node):
    root = device(tmp_path, node)
    with pytest.raises(OSError, match="node"):
        plan_of(monkeypatch, root, "--nic eth7 true")
    plan = plan_of(monkeypatch, root, "--nic eth7 --best-effort true")
    assert (plan.cpus, plan.mode) == (None, None) and len(plan.remarks) >= 1
    with pytest.raises(OSError, match="node"):
        plan_of(monkeypatch, root, "-m netdev:eth7 true")


def test_a_gpu_that_is_not_there_is_an_error_of_ours():
    for gpu in ("99", "GPU-00000000-0000-0000-0000-000000000000"):
        done = zerosys("run", "--gpu", gpu, "true")
        assert done.returncode == 125 and done.stderr.startswith("zerosys run: ")
        done = zerosys("run", "--gpu", gpu, "--best-effort", "echo", "ran")
        assert (done.returncode, done.stdout) == (0, "ran\n") and done.stderr


# --- the plan -----------------------------------------------------------------------------------


def test_a_plan_tells_what_the_command_would_get_and_runs_nothing(tmp_path):
    flag = tmp_path / "ran"
    done = zerosys("run", "--plan", "-i", str(NODE), "-C", str(CPU), "touch", flag)
    assert done.returncode == 0 and not flag.exists()
    assert done.stdout == f"command  touch {flag}\nCPUs     {CPU}\nmemory   interleave {NODE}\n"
    assert zerosys("run", "--plan").stdout == "command  none\nCPUs     as they are\nmemory   as it is\n"


def test_a_plan_as_json_is_what_the_kernel_granted():
    done = zerosys("run", "--best-effort", "--plan", "--json", "-b", "-m", f"{NODE},{NO_NODE}", "x", "y z")
    plan = json.loads(done.stdout)
    assert plan["command"] == ["x", "y z"] and plan["cpus"] is None
    assert plan["memory"] == {"policy": "bind", "balancing": True, "nodes": [NODE]}
    assert len(plan["left_out"]) == 1


def test_a_plan_that_cannot_be_is_an_error():
    assert zerosys("run", "--plan", "-m", str(NO_NODE)).returncode == 125


def test_help_tells_every_option():
    from zerosys.cli.run.plan import OPTIONS

    done = zerosys("run", "--help")
    assert done.returncode == 0
    for option in OPTIONS:
        assert f"--{option.long}" in done.stdout


# --- hardware and show ----------------------------------------------------------------------------


def test_hardware_as_json_is_the_topology():
    told = json.loads(zerosys("hardware", "--json").stdout)
    assert [node["id"] for node in told["nodes"]] == sorted(MACHINE.nodes)
    assert told["nodes"][0]["online_cpus"] == sorted(MACHINE.nodes[told["nodes"][0]["id"]].online_cpus)
    assert set(told["allowed_cpus"]) == MACHINE.allowed_cpus


@pytest.mark.parametrize("name", sorted(recorded()) or [""])
def test_recorded_machines_are_told_in_every_way(capsys, name):
    need("data", None if name else "ZEROSYS_DATA names no folder with sysfs-trees")
    root = str(unpacked(name))
    assert hardware.main(["--json", "--root", root], "hardware") == 0
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads((TREE / "docs/schemas/hardware.json").read_text()))
    assert hardware.main(["--more", "--color", "always", "--root", root], "hardware") == 0
    more = capsys.readouterr().out
    assert more.startswith(f"available: {len(told['nodes'])} nodes (")
    balancing = {True: "on: ", False: "off: ", None: "this kernel has none"}[told["balancing"]]
    assert more.splitlines()[-1].startswith(f"balancing: {balancing}")


def test_distances_are_a_heat_map_only_where_that_was_asked_or_can_be_seen():
    plain = zerosys("hardware").stdout
    warm = zerosys("hardware", "--color", "always").stdout
    assert "\x1b" not in plain and "\x1b[48;5;" in warm
    stripped = re.sub(r"\x1b\[[\d;]*m", "", warm)
    assert re.sub(r"\d+ MB", "", stripped) == re.sub(r"\d+ MB", "", plain)


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
)
def test_a_terminal_is_coloured_unless_it_is_not_to_be(environment, coloured):
    import pty

    main, end = pty.openpty()
    keep = {name: value for name, value in os.environ.items() if name not in ("TERM", "NO_COLOR")}
    done = subprocess.run(
        [sys.executable, "-m", "zerosys", "hardware"], stdout=end, env=keep | environment, timeout=60
    )
    os.close(end)
    said = os.read(main, 1 << 16)
    os.close(main)
    assert done.returncode == 0 and (b"\x1b[48" in said) == coloured


def test_show_names_what_numactl_numbers():
    inner = [sys.executable, "-m", "zerosys", "show"]
    assert zerosys("run", "-m", str(NODE), "-b", *inner).stdout.startswith(
        f"policy: bind balancing\npreferred node: {NODE}\nphyscpubind: "
    )
    told = json.loads(zerosys("run", "-i", str(NODE), "-C", str(CPU), *inner, "--json").stdout)
    assert told["policy"] == {"mode": "interleave", "flags": [], "nodes": [NODE], "next": NODE}
    assert told["cpus"] == [CPU] and told["memory_nodes"] == sorted(MACHINE.allowed_nodes)


def test_nothing_of_this_loads_numpy(tmp_path):
    code = "import sys, zerosys.cli as cli; cli.main(['run', '-m', '999', 'true']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert not set(done.stdout.split()) & {"numpy", "psutil", "argparse", "json", "pathlib", "dataclasses"}
    assert package.__version__
