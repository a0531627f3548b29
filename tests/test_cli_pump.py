"""zerosys pump: every place, every option, exit codes, and the progress under a pseudo-terminal."""

import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import jsonschema
import pytest
from commands import zerosys
from ends import Background, read_all

from zerosys.cli.places import place
from zerosys.cli.pump.progress import amount, bar, clock, line
from zerosys.pumps import PumpResult

DATA = bytes(range(251)) * 8000
PUMP = [sys.executable, "-m", "zerosys", "pump"]


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").write_bytes(DATA)
    return tmp_path / "in"


def pump(*arguments, **options):
    return zerosys("pump", *map(str, arguments), **{"text": False, **options})


# -- places -------------------------------------------------------------------------------------


def test_a_file_goes_to_a_file_and_json_tells_how(source, tmp_path):
    done = pump(source, tmp_path / "out", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    told = json.loads(done.stdout)
    assert (tmp_path / "out").read_bytes() == DATA
    assert told["bytes"] == told["moved"] == len(DATA)
    assert told["copied"] == 0 and told["path"] and told["seconds"] > 0


def test_standard_input_goes_to_standard_output_and_json_to_stderr():
    done = pump("-", "--json", input=DATA)
    assert (done.returncode, done.stdout) == (0, DATA)
    assert json.loads(done.stderr)["path"] == "splice"


@pytest.mark.parametrize("who", ["IN", "OUT"])
@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_connection_is_made_or_waited_for_at_either_end(kind, listens, who, source, tmp_path):
    path = str(tmp_path / "socket")
    family, address = (socket.AF_INET, ("127.0.0.1", 0)) if kind == "tcp" else (socket.AF_UNIX, path)
    if listens:
        where = "tcp-listen://127.0.0.1:0" if kind == "tcp" else f"unix-listen:{path}"
        listener = None
    else:
        listener = socket.create_server(address, family=family) if kind == "tcp" else socket.socket(family)
        if kind == "unix":
            listener.bind(path)
            listener.listen()
        where = f"tcp://127.0.0.1:{listener.getsockname()[1]}" if kind == "tcp" else f"unix:{path}"
    places = [where, str(tmp_path / "out")] if who == "IN" else [str(source), where]
    with subprocess.Popen([*PUMP, *places], stderr=subprocess.PIPE, text=True) as process:
        if listens:
            at = process.stderr.readline().split("listening on ")[1].strip()
            peer = socket.socket(family)
            peer.connect(path if kind == "unix" else ("127.0.0.1", int(at.rpartition(":")[2])))
        else:
            peer, _ = listener.accept()
            listener.close()
        with peer:
            if who == "IN":
                peer.sendall(DATA)
                peer.shutdown(socket.SHUT_WR)
            else:
                assert read_all(peer.fileno()) == DATA
        assert process.stderr.read() == ""
        assert process.wait(30) == 0
    if who == "IN":
        assert (tmp_path / "out").read_bytes() == DATA
    assert not (listens and os.path.exists(path))


def test_a_named_pipe_is_made_where_there_is_none_and_removed(source, tmp_path):
    path = tmp_path / "pipe"
    with subprocess.Popen([*PUMP, source, f"pipe:{path}"]) as process:
        while not path.exists():
            assert process.poll() is None
            time.sleep(0.01)
        assert path.read_bytes() == DATA
        assert process.wait(30) == 0
    assert not path.exists()
    os.mkfifo(path)
    with subprocess.Popen([*PUMP, source, f"pipe:{path}"]) as process:
        assert path.read_bytes() == DATA
    assert path.is_fifo()  # somebody else's


def test_a_descriptor_of_the_shell_is_a_place(source, tmp_path):
    command = f"{sys.executable} -m zerosys pump fd:3 fd:4 3<{source} 4>{tmp_path}/out"
    assert subprocess.run(["sh", "-c", command], timeout=60).returncode == 0
    assert (tmp_path / "out").read_bytes() == DATA


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tcp://host", "has no port"),
        ("tcp://:80", "has no host"),
        ("tcp-listen://host:99999", "has no port"),
        ("unix:", "names no path"),
        ("fd:x", "names no descriptor"),
        ("", "empty"),
    ],
)
def test_a_place_that_cannot_be_is_wrong_usage(text, why):
    with pytest.raises(ValueError, match=why):
        place(text)
    done = pump(text)
    assert done.returncode == 2 and why in done.stderr.decode()


def test_an_ipv6_address_stands_in_brackets():
    assert place("tcp://[::1]:80").address == ("::1", 80)


# -- options ------------------------------------------------------------------------------------


def test_count_and_offset_choose_the_part(source):
    done = pump(source, "--offset", "1KiB", "--count", 2000, "-")
    assert (done.returncode, done.stdout) == (0, DATA[1024:3024])


def test_a_count_that_the_source_has_not_is_its_failure(source, tmp_path):
    done = pump(source, tmp_path / "out", "--count", len(DATA) + 1)
    assert done.returncode == 3
    assert b"IN " in done.stderr and b"ended after" in done.stderr
    assert (tmp_path / "out").read_bytes() == DATA


def test_an_offset_in_a_pipe_is_refused():
    done = pump("-", "--offset", 5, input=b"0123456789")
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"no file, so it has no --offset" in done.stderr


def test_a_rate_is_kept(source, tmp_path):
    began = time.monotonic()
    assert pump(source, tmp_path / "out", "--rate", "1MiB", "--count", 700_000).returncode == 0
    assert time.monotonic() - began > 0.4
    assert (tmp_path / "out").read_bytes() == DATA[:700_000]


def test_many_outs_and_tee_each_get_all(source, tmp_path):
    outs = [tmp_path / name for name in "abc"]
    done = pump(source, *outs, "--tee")
    assert (done.returncode, done.stdout) == (0, DATA)
    assert [out.read_bytes() for out in outs] == [DATA] * 3


def test_one_out_of_many_that_fails_ends_alone_and_is_told(source, tmp_path):
    done = pump(source, tmp_path / "a", "/dev/full", "--json")
    assert done.returncode == 4
    assert b"OUT /dev/full: " in done.stderr
    assert (tmp_path / "a").read_bytes() == DATA
    full = json.loads(done.stdout)["sinks"][1]
    assert (full["to"], full["bytes"]) == ("/dev/full", 0) and "No space" in full["error"]


UNIT = 12  # no divisor of a page: a pipe's end is seldom a unit's


def numbered(units):
    return b"".join(b"%011d\n" % number for number in range(units))


@pytest.mark.parametrize("beside", [False, True])
def test_an_out_that_is_slow_misses_whole_units_which_are_counted_and_told(beside, tmp_path):
    units = 400_000  # more than a widened pipe and the pump's own hold
    (tmp_path / "in").write_bytes(numbered(units))
    os.mkfifo(tmp_path / "slow")
    outs = [*([tmp_path / "fast"] if beside else []), tmp_path / "slow"]
    options = ["--on-slow", "drop", "--unit", str(UNIT), "--pipe-size", "4KiB", "--json"]
    with subprocess.Popen(
        [*PUMP, tmp_path / "in", *outs, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        with open(tmp_path / "slow", "rb", buffering=0) as slow:
            wait_until(lambda: position(process.pid, tmp_path / "in") == units * UNIT)
            got = read_all(slow.fileno())
        *sinks, slow = json.loads(process.stdout.read())["sinks"]
        said = process.stderr.read().decode()
        assert process.wait(30) == 0
    assert slow["bytes"] == len(got) and slow["error"] is None
    assert slow["dropped"] == units - len(got) // UNIT > 0
    assert slow["dropped_bytes"] == slow["dropped"] * UNIT
    assert sorted(set(got.splitlines(True))) == got.splitlines(True) and len(got) % UNIT == 0
    assert f"OUT {tmp_path}/slow: too slow, missed {slow['dropped']} units" in said
    for sink in sinks:
        assert (tmp_path / "fast").read_bytes() == numbered(units)
        assert sink["dropped"] == 0 and f"OUT {tmp_path}/fast" not in said


def position(pid, path):
    """Where process *pid* stands in the file *path*, or None while it has not opened it."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{fd}") == str(path):
            with open(f"/proc/{pid}/fdinfo/{fd}") as told:
                return int(told.readline().split()[1])
    return None


def test_an_out_that_takes_nothing_is_given_up_after_its_time(tmp_path):
    (tmp_path / "in").write_bytes(numbered(400_000))
    near, far = socket.socketpair()
    with near, far:
        options = ["--on-slow", "drop", "--linger", "0.2", "--json"]
        done = pump(tmp_path / "in", tmp_path / "a", f"fd:{far.fileno()}", *options, pass_fds=[far.fileno()])
    assert done.returncode == 4
    stuck = json.loads(done.stdout)["sinks"][1]
    assert "timed out" in stuck["error"] and stuck["stranded"]
    assert stuck["bytes"] + stuck["dropped_bytes"] + stuck["stranded"] == 400_000 * UNIT
    assert (tmp_path / "a").read_bytes() == numbered(400_000)


@pytest.mark.parametrize(
    ("outs", "options", "status"),
    [
        (["a", "b"], [], 0),
        (["a"], ["--on-slow", "drop"], 0),
        (["a", "/dev/full"], [], 4),
        (["/dev/full"], [], 4),
        (["none/out"], [], 4),
        (["a"], ["--count", "1GiB"], 3),
        (["a", "--append"], ["--strict"], 1),
    ],
)
def test_json_has_the_form_that_its_schema_tells(outs, options, status, source):
    schema = json.loads((Path(__file__).parent.parent / "docs/schemas/pump.json").read_text())
    done = pump(source, *outs, *options, "--json", cwd=source.parent)
    assert done.returncode == status
    jsonschema.validate(json.loads(done.stdout), schema, jsonschema.Draft202012Validator)


def test_an_out_that_blocks_sets_the_pace_unless_told_otherwise(source, tmp_path):
    os.mkfifo(tmp_path / "slow")
    with subprocess.Popen(
        [*PUMP, source, tmp_path / "slow", tmp_path / "b", "--on-slow", "block"]
    ) as process:
        with open(tmp_path / "slow", "rb", buffering=0) as slow:
            time.sleep(0.3)
            assert process.poll() is None
            assert read_all(slow.fileno()) == DATA
        assert process.wait(30) == 0
    assert (tmp_path / "b").read_bytes() == DATA


def test_a_stable_out_does_not_see_what_becomes_of_the_source(source):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 16)
    done = pump(source, f"fd:{writer}", "--stable", "--count", "64KiB", "--json", pass_fds=[writer])
    assert (done.returncode, json.loads(done.stdout)["aliases"]) == (0, False)
    with open(source, "r+b") as file:
        file.write(bytes(len(DATA)))
    os.close(writer)
    assert read_all(reader) == DATA[: 1 << 16]
    os.close(reader)


def test_the_private_pipe_has_the_size_that_was_wished_for(source, tmp_path):
    done = pump(source, tmp_path / "a", tmp_path / "b", "--pipe-size", "64KiB", "--json")
    assert json.loads(done.stdout)["pipe_size"] == 1 << 16


def wait_until(holds):
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_appending_by_the_shell_or_by_us_keeps_what_there_was(source, tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"before ")
    command = f"{sys.executable} -m zerosys pump {source} --json >>{log}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60)
    assert done.returncode == 0
    assert json.loads(done.stderr)["path"] == "read-write"
    assert log.read_bytes() == b"before " + DATA
    assert pump(source, log, "--append").returncode == 0
    assert log.read_bytes() == b"before " + DATA + DATA


def test_strict_refuses_what_would_copy(source, tmp_path):
    log = tmp_path / "log"
    done = pump(source, log, "--append", "--strict")
    assert done.returncode == 1 and b"--strict refuses" in done.stderr
    assert log.read_bytes() == b""
    assert pump(source, log, "--strict").returncode == 0


@pytest.mark.parametrize("option", ["--timeout", "--stall-timeout"])
def test_a_limit_of_time_ends_it(option, tmp_path):
    reader, writer = os.pipe()
    done = pump("-", tmp_path / "out", option, "0.3", stdin=reader)
    os.close(reader)
    os.close(writer)
    assert done.returncode == 1 and b"0.3 s" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-", "a", "b", "--rate", "5"], "--rate is for one OUT"),
        (["-", "a", "--on-slow", "drop", "--rate", "5"], "--rate is for one OUT"),
        (["-", "a", "b", "--stable"], "--stable is for one OUT"),
        (["-", "a", "b", "--unit", "5"], "--unit is for --on-slow drop"),
        (["-", "a", "b", "--linger", "5"], "--linger is for --on-slow drop"),
        (["-", "a", "b", "--on-slow", "drop", "--linger", "nan"], "--linger must be seconds"),
        (["-", "a", "b", "--on-slow", "drop", "--unit", "0"], "--unit: size must be"),
        (["-", "a", "b", "--on-slow", "drop", "--unit", "2", "--strict"], "--strict does not go with --unit"),
        (["-", "a", "b", "--on-slow", "wait"], "invalid choice: 'wait'"),
        (["-", "a", "--pipe-size", "0"], "--pipe-size: size must be"),
        (["-", "a", "a"], "named twice"),
        (["-", "--count", "many"], "--count: size must be"),
        (["-", "--timeout", "-1"], "--timeout must be seconds"),
        ([], "IN"),
    ],
)
def test_wrong_usage_is_2(arguments, why):
    done = pump(*arguments)
    assert done.returncode == 2 and why in done.stderr.decode()


# -- failures -----------------------------------------------------------------------------------


def test_source_and_sink_have_exit_codes_of_their_own(source, tmp_path):
    done = pump(tmp_path / "none", tmp_path / "out", "--json")
    assert done.returncode == 3
    assert done.stderr.decode().endswith(f"IN {tmp_path}/none: No such file or directory\n")
    assert json.loads(done.stdout)["status"] == 3
    assert pump(source, tmp_path / "none/out").returncode == 4
    done = pump(source, "/dev/full")
    assert done.returncode == 4
    assert b"No space left on device; 0 B had arrived" in done.stderr
    assert pump(tmp_path, tmp_path / "out").returncode == 3  # a folder


def test_a_reader_that_leaves_ends_it_as_it_ends_cat(source):
    with subprocess.Popen([*PUMP, "/dev/zero"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(10) == bytes(10)
        process.stdout.close()
        assert process.wait(30) == -signal.SIGPIPE
        assert process.stderr.read() == b""


def test_a_peer_that_leaves_is_the_sinks_failure():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with subprocess.Popen([*PUMP, "/dev/zero", where], stderr=subprocess.PIPE) as process:
            peer, _ = listener.accept()
            peer.recv(10)
            peer.close()
            assert process.wait(30) == 4
            assert f"OUT {where}: ".encode() in process.stderr.read()


def test_control_c_ends_it_within_a_second_with_130():
    reader, writer = os.pipe()
    with subprocess.Popen(
        ["sh", "-c", f"trap - INT; exec {sys.executable} -m zerosys pump - 2>&1"],
        stdin=reader,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        os.write(writer, b"ready")
        assert process.stdout.read(5) == b"ready"
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 130
    os.close(reader)
    os.close(writer)


# -- progress -----------------------------------------------------------------------------------


def on_a_terminal(*arguments, columns=120, **options):
    """Run the pump with stderr a terminal; its exit status and what the terminal was shown."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([*PUMP, *map(str, arguments)], stderr=slave, **options)
    os.close(slave)

    def shown():
        parts = []
        try:
            while part := os.read(master, 4096):
                parts.append(part)
        except OSError:  # the terminal's other side is gone
            pass
        return b"".join(parts).decode()

    text = Background(shown)
    status = process.wait(60)
    seen = text.result()
    os.close(master)
    return status, seen


def test_a_terminal_is_shown_rate_average_share_time_left_and_path(source, tmp_path):
    status, seen = on_a_terminal(source, tmp_path / "out", "--rate", "1500KiB")
    assert status == 0
    lines = seen.replace("\x1b[K", "").strip().split("\r")
    drawn = [text for text in lines if "ETA" in text]
    assert len(drawn) >= 3
    assert all("avg " in text and "/s" in text and "%" in text and "[" in text for text in drawn)
    assert "100%" in lines[-1] and "ETA" not in lines[-1]
    assert seen.endswith("\r\n")
    assert all(len(text) < 120 for text in lines)


def test_a_narrow_terminal_is_not_overflowed(source, tmp_path):
    _, seen = on_a_terminal(source, tmp_path / "out", "--rate", "1500KiB", columns=30)
    lines = seen.replace("\x1b[K", "").strip().split("\r")
    assert max(map(len, lines)) < 30


def test_it_is_quiet_without_a_terminal_when_told_and_when_the_bytes_go_there(source, tmp_path):
    assert pump(source, tmp_path / "out", "--rate", "4MiB").stderr == b""
    assert on_a_terminal(source, tmp_path / "out", "--rate", "4MiB", "--quiet") == (0, "")
    master, slave = pty.openpty()
    with subprocess.Popen([*PUMP, source, "--count", "10"], stdout=slave, stderr=slave) as process:
        assert process.wait(60) == 0
    assert os.read(master, 1000) == DATA[:10].replace(b"\n", b"\r\n")
    os.close(master)
    os.close(slave)


def result(count, seconds):
    return PumpResult(count, count, 0, 0, "splice", 0, seconds, False)


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [
        (0, 100, "0 B  0:00  0 B/s  avg 0 B/s    0%  splice  [>       "),
        (50, 100, "50 B  0:05  10 B/s  avg 10 B/s   50%  ETA 0:05  splice  [====="),
        (5 << 30, None, "5.00 GiB  0:05  10 B/s  avg 1.00 GiB/s  splice"),
    ],
)
def test_the_line_is_what_it_says(count, total, text):
    assert line(result(count, 5 if count else 0), 10 if count else 0, total, 120).startswith(text)


def test_amounts_and_times_are_short():
    assert [amount(n) for n in (0, 999, 1000, 1 << 20, 1 << 30, 200 << 40)] == [
        "0 B", "999 B", "0.98 KiB", "1.00 MiB", "1.00 GiB", "200 TiB"
    ]  # fmt: skip
    assert [clock(s) for s in (0, 61, 3600, 1e9)] == ["0:00", "1:01", "1:00:00", "99:59:59"]
    assert (bar(0, 10), bar(0.5, 10), bar(1, 10)) == ("[>       ]", "[====>   ]", "[========]")


# -- what must not be overwritten, or taken for something else ----------------------------------


@pytest.mark.parametrize("options", [[], ["--append"], ["--strict"]])
@pytest.mark.parametrize("name", ["in", "hard", "soft"])
def test_the_source_is_never_overwritten_by_whatever_name(name, options, source, tmp_path):
    os.link(source, tmp_path / "hard")
    os.symlink(source, tmp_path / "soft")
    for outs in ([name], ["other", name]):
        done = pump("in", *outs, *options, cwd=tmp_path)
        assert done.returncode == 4
        assert f"OUT {name}: it is the same file as IN in" in done.stderr.decode()
        assert source.read_bytes() == DATA
        assert not (tmp_path / "other").exists()


def test_two_names_of_one_file_are_no_two_outs_and_it_keeps_its_bytes(source, tmp_path):
    (tmp_path / "a").write_bytes(b"kept")
    os.link(tmp_path / "a", tmp_path / "b")
    done = pump(source, tmp_path / "a", tmp_path / "b")
    assert done.returncode == 4 and b"the same file as OUT" in done.stderr
    assert (tmp_path / "a").read_bytes() == b"kept"


def test_what_a_file_had_is_gone_before_the_new_bytes(source, tmp_path):
    (tmp_path / "out").write_bytes(bytes(2 * len(DATA)))
    assert pump(source, tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == DATA


@pytest.mark.parametrize(
    ("command", "status", "why"),
    [
        ("- out <&-", 3, "IN -: standard input is closed"),
        ("in >&-", 4, "OUT -: standard output is closed"),
        ("in fd:3", 4, "OUT fd:3: descriptor 3 is closed"),
        ("fd:4 out", 3, "IN fd:4: descriptor 4 is closed"),
    ],
)
def test_a_closed_descriptor_is_said_to_be_and_no_file_takes_its_place(
    command, status, why, source, tmp_path
):
    words = f"{sys.executable} -m zerosys pump {command} 3>&- 4>&-"
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (status, f"zerosys pump: {why}\n")
    assert source.read_bytes() == DATA and not (tmp_path / "out").exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_that_are_not_asked_for_do_no_harm(closed, source, tmp_path):
    words = f"{sys.executable} -m zerosys pump in out {closed}"
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "out").read_bytes() == DATA


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tcp:127.0.0.1:9000", "did you mean tcp://127.0.0.1:9000?"),
        ("tpc://127.0.0.1:9000", "did you mean tcp://127.0.0.1:9000?"),
        ("TCP://127.0.0.1:9000", "did you mean tcp://127.0.0.1:9000?"),
        ("tcp-listn://:80", "did you mean tcp-listen://:80?"),
        ("unixlisten:/a", "did you mean unix-listen:/a?"),
        ("udp://127.0.0.1:9000", "there are fd:, file:"),
    ],
)
def test_a_misspelt_scheme_is_no_file(text, why, source, tmp_path):
    done = pump(source, text, cwd=tmp_path)
    assert done.returncode == 2 and why in done.stderr.decode()
    assert f"./{text}" in done.stderr.decode().replace("\n", " ")
    assert os.listdir(tmp_path) == ["in"]


def test_a_file_with_a_colon_in_its_name_is_one(source, tmp_path):
    assert pump(source, "./a:b", cwd=tmp_path).returncode == 0
    done = pump("a:b", "-", cwd=tmp_path)  # it is there
    assert (done.returncode, done.stdout) == (0, DATA)


def test_an_offset_behind_the_end_is_an_error_and_at_the_end_nothing_is_left(source, tmp_path):
    (tmp_path / "out").write_bytes(b"kept")
    done = pump(source, tmp_path / "out", "--offset", len(DATA) + 1)
    assert done.returncode == 3 and f"it has {len(DATA)} bytes".encode() in done.stderr
    assert (tmp_path / "out").read_bytes() == b"kept"
    assert pump(source, tmp_path / "out", "--offset", len(DATA)).returncode == 0
    assert (tmp_path / "out").read_bytes() == b""


def test_a_number_that_no_descriptor_has_is_wrong_usage(source):
    for number in (2**31, 999999999999999999999, "9" * 5000):
        done = pump(source, f"fd:{number}")
        assert done.returncode == 2 and b"names no descriptor" in done.stderr
        assert b"Traceback" not in done.stderr


def test_only_what_is_required_is_said_to_be():
    done = pump()
    assert done.returncode == 2
    assert b"required: IN\n" in done.stderr


def test_a_short_source_names_no_python_argument(source, tmp_path):
    done = pump(source, tmp_path / "out", "--count", len(DATA) + 1)
    assert b"ended after" in done.stderr and b"count=None" not in done.stderr


def test_strict_names_what_needs_the_copy_and_loses_nothing_of_a_file(source, tmp_path):
    done = pump(source, tmp_path / "log", "--append", "--strict")
    assert done.returncode == 1
    assert b"open for appending" in done.stderr and b"lost" not in done.stderr
    done = pump(source, "/dev/full")
    assert done.returncode == 4 and b"No space" in done.stderr and b"lost" not in done.stderr
    told = pump("-", "/dev/full", "--json", input=DATA)  # a pipe's bytes are lost
    assert told.returncode == 4
    assert (b"are lost" in told.stderr) == bool(json.loads(told.stdout)["stranded"])
