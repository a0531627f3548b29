"""zerosys relay with real peers: nginx and haproxy at the far side, curl in front, terminals and pipes."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from commands import zerosys
from ends import Background, read_all
from peers import free_port, relay, running, tool, wait_for

DATA = os.urandom(5_000_011)

NGINX = """
{user} daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}/www; client_max_body_size 0; }}
}}
"""
HAPROXY = """
global
    maxconn 4000
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    option splice-auto
listen through
    bind 127.0.0.1:{port}
    server far 127.0.0.1:{far}
"""


@pytest.fixture
def nginx(tmp_path):
    """The port of an nginx that serves ``data``."""
    folder, port = tmp_path / "nginx", free_port()
    # Its worker would be nobody, who may not look into a test's folder.
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "www").mkdir(parents=True)
    (folder / "www/data").write_bytes(DATA)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, user=user))
    with running([tool("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")], folder) as server:
        wait_for(port, server)
        yield port


def fetched(port, *options):
    """What curl gets of ``data`` at *port*."""
    done = subprocess.run(
        [tool("curl"), "--silent", "--show-error", "--fail", *options, f"http://127.0.0.1:{port}/data"],
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_curl_gets_a_file_from_nginx_through_the_relay_without_a_copy(nginx):
    with relay(f"tcp://127.0.0.1:{nginx}", "--json") as (process, port):
        assert fetched(port) == DATA
        told = json.loads(process.stdout.readline())
    assert told["error"] is None
    assert told["back"]["moved"] > len(DATA) and told["back"]["copied"] == 0
    assert told["forth"]["path"] == "splice-pipe-splice"


def test_many_curls_at_once_and_on_one_connection(nginx):
    with relay(f"tcp://127.0.0.1:{nginx}") as (_, port):
        with ThreadPoolExecutor(16) as pool:
            got = set(pool.map(lambda _: hashlib.sha256(fetched(port)).digest(), range(48)))
        assert got == {hashlib.sha256(DATA).digest()}
        twice = fetched(port, f"http://127.0.0.1:{port}/data")  # kept alive: the relay must not end it
        assert twice == DATA * 2


def test_a_slow_reader_gets_all(nginx):
    with relay(f"tcp://127.0.0.1:{nginx}") as (_, port):
        assert fetched(port, "--limit-rate", "3M") == DATA


def test_haproxy_at_the_far_side_gets_and_gives_every_byte(nginx, tmp_path):
    far = free_port()
    (tmp_path / "haproxy.cfg").write_text(HAPROXY.format(port=far, far=nginx))
    with running([tool("haproxy"), "-db", "-f", str(tmp_path / "haproxy.cfg")], tmp_path) as server:
        wait_for(far, server)
        with relay(f"tcp://127.0.0.1:{far}") as (_, port):
            with ThreadPoolExecutor(8) as pool:
                assert set(pool.map(lambda _: fetched(port) == DATA, range(16))) == {True}


def test_an_upload_arrives_whole_and_is_answered():
    """curl sends a body, waits for 100-continue, and gets the answer after its own end."""

    def serve(listener):
        near, _ = listener.accept()
        with near, near.makefile("rb") as lines:
            length = 0
            while (line := lines.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length"):
                    length = int(line.split(b":")[1])
            near.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = lines.read(length)
            answer = hashlib.sha256(body).hexdigest().encode()
            near.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\nConnection: close\r\n\r\n" + answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Background(serve, listener)
        with relay(f"tcp://127.0.0.1:{listener.getsockname()[1]}") as (_, port):
            url = f"http://127.0.0.1:{port}/"
            done = subprocess.run(
                [tool("curl"), "--silent", "--data-binary", "@-", "-H", "Expect: 100-continue", url],
                input=DATA,
                capture_output=True,
                timeout=60,
            )
        server.result()
    assert done.stdout.decode() == hashlib.sha256(DATA).hexdigest()


# -- its own ways -------------------------------------------------------------------------------


def test_standard_input_and_output_are_an_end():
    def serve(listener):
        near, _ = listener.accept()
        with near:
            got = read_all(near.fileno())
            near.sendall(got[::-1])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Background(serve, listener)
        done = zerosys(
            "relay", "-", f"tcp://127.0.0.1:{listener.getsockname()[1]}", "--json", input=DATA, text=False
        )
        server.result()
    assert (done.returncode, done.stdout) == (0, DATA[::-1])
    assert json.loads(done.stderr)["forth"]["bytes"] == len(DATA)


def test_unix_sockets_both_sides_and_the_name_goes_at_the_end(tmp_path):
    near, far = tmp_path / "near", tmp_path / "far"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(far))
        listener.listen()
        command = [sys.executable, "-m", "zerosys", "relay", f"unix-listen:{near}", f"unix:{far}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert f"listening on {near}" in process.stderr.readline()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(near))
                server, _ = listener.accept()
                client.sendall(b"ping")
                assert server.recv(10) == b"ping"
                server.sendall(b"pong")
                assert client.recv(10) == b"pong"
                server.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
    assert not near.exists()


def test_once_ends_after_the_first_and_two_listeners_are_joined():
    command = [
        sys.executable,
        "-m",
        "zerosys",
        "relay",
        "tcp-listen://127.0.0.1:0",
        "tcp-listen://127.0.0.1:0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        ends = []
        for _ in range(2):
            port = int(process.stderr.readline().rpartition(":")[2])
            ends.append(socket.create_connection(("127.0.0.1", port)))
        a, b = ends
        a.sendall(b"hello")
        assert b.recv(10) == b"hello"
        a.close()
        assert b.recv(10) == b""
        b.close()
        assert process.wait(10) == 0


def test_a_far_side_that_is_not_there_costs_one_connection_and_not_the_relay():
    nobody = free_port()
    with relay(f"tcp://127.0.0.1:{nobody}") as (process, port):
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port)) as client:
                assert client.recv(10) == b""
            assert "Connection refused" in process.stderr.readline()
        assert process.poll() is None


def test_control_c_ends_it_with_its_connections():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with relay(f"tcp://127.0.0.1:{listener.getsockname()[1]}") as (process, port):
            with socket.create_connection(("127.0.0.1", port)) as client:
                server, _ = listener.accept()
                process.send_signal(signal.SIGINT)
                assert process.wait(10) in (0, 130)
                assert client.recv(10) == b"" == server.recv(10)
                server.close()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["file", "-"], "cannot be read and written"),
        (["-", "-"], "both standard input"),
        (["-", "tcp://host:1", "--pipes", "0"], "--pipes must be at least 1"),
        (["-", "tcp://host:1", "--timeout", "-1"], "--timeout must be seconds"),
        (["-", "tcp://host:1", "--stall-timeout", "nan"], "--stall-timeout must be seconds"),
    ],
)
def test_wrong_usage_is_2(arguments, why):
    done = zerosys("relay", *arguments)
    assert done.returncode == 2 and why in done.stderr


def test_a_stalled_connection_is_ended_when_asked():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with relay(f"tcp://127.0.0.1:{listener.getsockname()[1]}", "--stall-timeout", "0.3") as (
            process,
            port,
        ):
            with socket.create_connection(("127.0.0.1", port)) as client:
                assert client.recv(10) == b""
            assert "nothing has moved for 0.3 s" in process.stderr.readline()


def test_an_end_that_cannot_be_had_is_named():
    done = zerosys("relay", "--once", "tcp://127.0.0.1:1", "unix:/nowhere")
    assert (done.returncode, done.stderr) == (1, "zerosys relay: tcp://127.0.0.1:1: Connection refused\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"tcp-listen://127.0.0.1:{taken.getsockname()[1]}"
        done = zerosys("relay", at, "unix:/nowhere")
    assert (done.returncode, done.stderr) == (1, f"zerosys relay: {at}: Address already in use\n")


@pytest.mark.parametrize(("closed", "name"), [("<&-", "input"), (">&-", "output")])
def test_a_closed_standard_descriptor_is_said_to_be(closed, name):
    words = f"{sys.executable} -m zerosys relay - tcp://127.0.0.1:1 {closed}"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"zerosys relay: standard {name} is closed\n")


@pytest.mark.parametrize(
    ("out", "options", "why"),
    [("/dev/full", [], "No space left"), ("log", ["--strict"], "O_APPEND")],
)
def test_what_goes_wrong_is_told_without_pythons_words(out, options, why, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener, open(tmp_path / out, "ab") as sink:
        reader, writer = os.pipe()
        os.close(writer)
        peer = Background(_greet, listener)
        done = zerosys(
            "relay",
            *options,
            "-",
            f"tcp://127.0.0.1:{listener.getsockname()[1]}",
            capture_output=False,
            stdin=reader,
            stdout=sink,
            stderr=subprocess.PIPE,
        )
        os.close(reader)
        peer.result()
    assert done.returncode == 1 and why in done.stderr
    assert "stranded_bytes" not in done.stderr and "which strict" not in done.stderr


def _greet(listener):
    near, _ = listener.accept()
    with near:
        near.sendall(b"bytes")
        near.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):  # what was not taken is thrown away
            read_all(near.fileno())
