"""Called numactl, the command is numactl: options, output, exit codes, and what a command inherits."""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import debian
import pytest
from commands import installed
from differential import PROBE, seen
from launchers import rank_lines
from seccomp import POLICY_CALLS, Refuse, refused

from zerosys import _sysv
from zerosys.cli.gnu import Usage
from zerosys.cli.numactl.options import NUMACTL, Words


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """The path of a link called numactl."""
    return installed(tmp_path_factory.mktemp("bin"), "numactl") / "numactl"


def run(*command, **options):
    return subprocess.run(
        list(map(str, command)), **{"capture_output": True, "text": True, "timeout": 60, **options}
    )


# --- the command line is read as getopt_long(3) reads it ---------------------------------------


def words(*argv):
    read = Words(argv, NUMACTL)
    return list(read), read.rest


@pytest.mark.parametrize(
    ("argv", "options", "rest"),
    [
        ("-m 0 true", [("membind", "0")], ["true"]),
        ("-m0 true -m 1", [("membind", "0")], ["true", "-m", "1"]),
        ("--membind=0 -- -x", [("membind", "0")], ["-x"]),
        ("--mem 0 - x", [("membind", "0")], ["-", "x"]),
        ("-lam0,1 x", [("localalloc", ""), ("all", ""), ("membind", "0,1")], ["x"]),
        ("--preferred 1 x", [("preferred", "1")], ["x"]),
        ("--preferred-m=1", [("preferred-many", "1")], []),
        ("--interleave= x", [("interleave", "")], ["x"]),
        ("--cpub 0", [("cpubind", "0")], []),
    ],
)
def test_options_end_at_the_first_word_that_is_none(argv, options, rest):
    assert words(*argv.split()) == (options, rest)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ("--prefer 1", r"'--prefer' is ambiguous; possibilities: '--preferred' '--preferred-many'"),
        ("--membindd 1", r"unrecognized option '--membindd'; did you mean '--membind'"),
        ("-Z", "invalid option -- 'Z'"),
        ("-l=1", "invalid option -- '='"),
        ("--localalloc=1", "doesn't allow an argument"),
        ("-m", "option requires an argument -- 'm'"),
        ("--membind", "option '--membind' requires an argument"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(argv, text):
    with pytest.raises(Usage, match=text):
        words(*argv.split())


# --- output ----------------------------------------------------------------------------------


def without_free(text):
    return re.sub(r"(free|size): \d+", r"\1: ?", text)  # memory that a busy machine has changes meanwhile


def test_hardware_is_numactls_to_the_byte(ours):
    theirs, mine = run(debian.tool("numactl"), "-H"), run(ours, "-H")
    assert without_free(mine.stdout) == without_free(theirs.stdout)
    assert (mine.returncode, mine.stderr) == (theirs.returncode, theirs.stderr) == (0, "")


@pytest.mark.parametrize(
    "before",
    ["", "-l", "-i 0", "-i all", "-m 0", "-b -m 0", "-p 0", "-P 0", "-C 0", "-N 0", "-i", "--all -m +0"],
)
def test_show_is_numactls_to_the_byte_after_any_option(ours, before):
    options = before.split() if before != "-i" else ["-i", ""]
    theirs, mine = run(debian.tool("numactl"), *options, "-s"), run(ours, *options, "--show")
    assert (mine.returncode, mine.stdout, mine.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_compressed_cpus_are_ranges_with_their_number(ours):
    online = sorted(os.sched_getaffinity(0))
    line = run(ours, "-H", "--cpu-compress").stdout.splitlines()[1]
    assert re.fullmatch(r"node 0 cpus:( \d+(-\d+)?,?)+ \(\d+\)", line) and line.endswith(f"({len(online)})")


def test_the_version_names_the_numactl_whose_options_these_are(ours):
    assert re.fullmatch(r"2\.0\.\d+ \(zerosys .*\)\n", run(ours, "--version").stdout)


# --- exit codes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("true", 0),
        ("false", 1),
        ("sh -c 'exit 7'", 7),
        ("-m 0 -N 0 sh -c 'exit 7'", 7),
        ("/nonexistent", 1),
        ("/etc/passwd", 1),
        ("", 1),
        ("--help", 1),
        ("-m 0 -i 0 true", 1),
        ("-m 999 true", 1),
        ("-N 999 true", 1),
        ("-C 9999 true", 1),
        ("-C 0 -a true", 1),
        ("-m 0 -H", 1),
        ("-p 0 -b true", 1),
        ("--dump true", 1),
        ("--touch true", 1),
        ("--length 1m true", 1),
        ("--length 1m -N 0 true", 1),
        ("-t true", 0),
        ("-m same true", 1),
        ("-N 0 -m same true", 0),
    ],
)
def test_exit_codes_are_numactls(ours, line, code):
    theirs = run("bash", "-c", f"{debian.tool('numactl')} {line}")
    mine = run("bash", "-c", f"{ours} {line}")
    assert mine.returncode == theirs.returncode == code
    assert (mine.stderr == "") == (theirs.stderr == "")


def test_a_command_that_a_signal_kills_is_seen_as_such(ours):
    assert run(ours, "-m", "0", "sh", "-c", "kill -9 $$").returncode == -signal.SIGKILL


def test_closed_descriptors_are_the_commands_business(ours):
    theirs, mine = (
        run("bash", "-c", f"{numactl} -m 0 sh -c 'ls /proc/self/fd >&2' <&- >&-")
        for numactl in (debian.tool("numactl"), ours)
    )
    assert (mine.returncode, mine.stdout, mine.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert mine.returncode == 0


def test_a_huge_segment_that_no_pool_has_says_how_many_pages_there_are(ours, tmp_path):
    done = run(ours, "--length=4096g", "--huge", f"--shm={tmp_path / 'key'}")
    assert done.returncode == 1
    assert re.search(r"huge pages of \d+ kB asked, \d+ are free: reserve more|offers no huge", done.stderr)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--length=1_0", "'1_0' is no size: write a number of bytes up to 9223372036854775807"),
        ("--length=99999999999g", "'99999999999g' is no size"),
        (f"--length={'9' * 5000}", "is no size"),
        ("--length=0b1", "'0b1' is no size"),
        ("--length=-1", "'-1' is no size"),
        ("--length=", "'' is no size"),
        ("--length=10", "policy region not page aligned: --length 10 and --offset 0"),
        ("--shmid=1_0", "'1_0' is no project number, 0 to 2147483647"),
        ("--shmid=99999999999999999999", "is no project number"),
    ],
)
def test_a_segment_that_could_not_be_used_is_not_made(ours, tmp_path, option, text):
    before = Path("/proc/sysvipc/shm").read_text()
    done = run(ours, option, f"--shm={tmp_path / 'key'}", "--dump")
    assert done.returncode == 1 and text in done.stderr, done.stderr
    assert "Creating shared memory segment" not in done.stderr
    assert Path("/proc/sysvipc/shm").read_text() == before


def test_a_segment_that_is_shorter_than_was_asked_is_named_with_the_remedy(ours, tmp_path):
    key = tmp_path / "key"
    assert run(ours, "--length=0x1000", f"--shm={key}").returncode == 0
    id = _sysv.shmget(_sysv.ftok(bytes(key), 0), 0)
    try:
        done = run(ours, "--length=8k", f"--shm={key}", "--dump")
        assert done.returncode == 1
        assert f"the segment of {key} has 4096 bytes, and 8192 are asked for" in done.stderr
        assert f"ipcrm -m {id}" in done.stderr
    finally:
        _sysv.shm_remove(id)


def test_a_script_without_a_first_line_is_run_by_the_shell_as_execvp_does(ours, tmp_path):
    script = tmp_path / "plain"
    script.write_text("echo by the shell: $1\n")
    script.chmod(0o755)
    assert (
        run(ours, script, "x").stdout
        == "by the shell: x\n"
        == run(debian.tool("numactl"), script, "x").stdout
    )


# --- what the command inherits --------------------------------------------------------------

ODD = {
    "A": "1",
    "EMPTY": "",
    "PYTHONPATH": "/nowhere",
    "LANG": "C",
    b"BYTES": b"\xff\xfe",
    "PATH": os.environ["PATH"],
}
STATUS = (
    "SigIgn",
    "SigBlk",
    "SigCgt",
    "SigPnd",
    "Umask",
    "NoNewPrivs",
    "CapEff",
    "Cpus_allowed",
    "Mems_allowed",
)


def prepared():
    os.umask(0o027)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (123, 456))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def inherited(command, environment, descriptor):
    def said(*words):
        return subprocess.run(
            [*map(str, command), *words],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=60, check=True, preexec_fn=prepared, pass_fds=[descriptor],
        ).stdout  # fmt: skip

    status = [
        line
        for line in said("cat", "/proc/self/status").decode().splitlines()
        if line.split(":")[0] in STATUS
    ]
    return {
        "environment": said("cat", "/proc/self/environ"),
        "status": status,
        "limits": said("cat", "/proc/self/limits"),
        "descriptors": said("ls", "/proc/self/fd"),
        "flags": said("cat", f"/proc/self/fdinfo/{descriptor}", "/proc/self/fdinfo/0").splitlines()[1],
        "arguments": said("sh", "-c", "cat /proc/$$/cmdline", "", "ä", "\udcff", "--", "-m"),
        "policy": said("sh", "-c", "sed 's/ file=.*//; s/[^ ]* //; q' /proc/self/numa_maps"),
    }


@pytest.mark.parametrize("options", [["-m", "0"], ["--interleave=all", "--cpunodebind=0"], []])
def test_the_command_inherits_what_numactl_would_have_left_it(ours, options):
    """SIGPIPE at default, no extra descriptor, the environment without what Python adds to its own."""
    reading, writing = os.pipe()
    try:
        theirs = inherited([debian.tool("numactl"), *options], ODD, reading)
        mine = inherited([ours, *options], ODD, reading)
        run_too = inherited([ours.parent / "zerosys", "run", *options], ODD, reading)
    finally:
        os.close(reading)
        os.close(writing)
    for what, expected in theirs.items():
        assert mine[what] == expected, what
        assert run_too[what] == expected, what
    assert b"BYTES=\xff\xfe\0" in theirs["environment"] and b"LC_CTYPE" not in theirs["environment"]


# --- kernels that refuse ---------------------------------------------------------------------


@pytest.mark.parametrize("error", [1, 38])
def test_a_launcher_that_probes_first_decides_the_same_under_a_filter(ours, error):
    """As images of databases do: the server is prefixed with it only where the probe works."""
    probe = (
        "if {0} --interleave=all true >/dev/null 2>&1; "
        "then exec {0} --interleave=all echo {1}; else exec echo {1}; fi"
    )
    rules = [Refuse(call, error) for call in POLICY_CALLS]
    for numactl in (debian.tool("numactl"), ours):
        command = ["sh", "-c", probe.format(numactl, "server --port 1")]
        for done in (run(*command), refused(rules, command)):
            assert (done.returncode, done.stdout, done.stderr) == (0, "server --port 1\n", "")
    for done in (
        refused(rules, [ours, "--interleave=all", "true"]),
        refused(rules, [debian.tool("numactl"), "-i", "all", "true"]),
    ):
        assert done.returncode == 1


@pytest.mark.parametrize("ranks", [1, 2])
def test_lines_that_a_launcher_builds_for_each_rank_place_the_same(ours, ranks):
    theirs = debian.tool("numactl")
    lines = list(rank_lines(run(ours, "--hardware").stdout, ranks))
    assert lines == list(rank_lines(run(theirs, "--hardware").stdout, ranks)) and lines
    for line in lines:
        assert seen(ours, [*line, "sh", "-c", PROBE]) == seen(theirs, [*line, "sh", "-c", PROBE])


def test_a_launcher_that_falls_back_where_the_kernel_does_not_permit_understands_ours(ours):
    """It looks for these words in what numactl says, and then leaves the memory out."""
    done = refused([Refuse("set_mempolicy", 1)], [ours, "-m", "0", "-C", "0", "true"])
    assert done.returncode == 1 and "operation not permitted" in done.stderr.lower()
    assert refused([Refuse("set_mempolicy", 1)], [ours, "-C", "0", "true"]).returncode == 0


def test_a_refusal_names_the_call_and_the_remedy(ours):
    done = refused([Refuse("set_mempolicy", 1)], [ours, "-m", "0", "true"])
    assert done.returncode == 1
    assert re.match(
        r"numactl: set_mempolicy: Operation not permitted; a seccomp filter .* SYS_NICE", done.stderr
    )


def test_without_numa_it_says_so_as_numactl_does(ours):
    rules = [Refuse(call, 38) for call in POLICY_CALLS]
    for option in ("-H", "-s"):
        theirs = refused(rules, [debian.tool("numactl"), option])
        mine = refused(rules, [ours, option])
        assert (mine.returncode, mine.stdout) == (theirs.returncode, theirs.stdout)
        assert mine.returncode == 1


def test_nobody_reading_is_no_traceback(ours):
    done = run("bash", "-c", f"{ours} -H | true; echo ${{PIPESTATUS[0]}}")
    assert done.stdout in ("0\n", "141\n") and done.stderr == ""


def test_it_is_light(ours):
    """No module whose import is felt is loaded before the command runs."""
    code = """import sys, zerosys.cli as cli
sys.argv[:] = ["numactl", "-N", "0", "-m", "0", "/nonexistent"]
cli.main()
print(*sys.modules)"""
    loaded = set(run(sys.executable, "-c", code).stdout.split())
    assert "zerosys._numa" in loaded
    assert not loaded & {
        "argparse",
        "dataclasses",
        "json",
        "pathlib",
        "re",
        "typing",
        "enum",
        "numpy",
        "psutil",
    }
