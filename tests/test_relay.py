"""relay(): both ways between two sockets, and how their ends are passed on."""

import os
import random
import socket
import threading

import pytest
from ends import Background, no_descriptor_left, read_all, shrink, tcp_pair

from zerosys import PumpError, PumpTimeout, relay

DATA = random.Random(8).randbytes(900_003)


class Both:
    """client <-> a, relayed, b <-> server; all four sockets."""

    def __init__(self, make):
        self.client, self.a = make()
        self.b, self.server = make()

    def close(self):
        for end in (self.client, self.a, self.b, self.server):
            end.close()


@pytest.fixture(params=[tcp_pair, socket.socketpair], ids=["tcp", "unix"])
def both(request):
    with no_descriptor_left():
        ends = Both(request.param)
        yield ends
        ends.close()


def answer(server):
    """Read all, then answer with it turned round: nothing goes back before the client's end is seen."""
    got = read_all(server.fileno())
    server.sendall(got[::-1])
    server.shutdown(socket.SHUT_WR)


def ask(client):
    sender = Background(lambda: (client.sendall(DATA), client.shutdown(socket.SHUT_WR)))
    got = read_all(client.fileno())
    sender.result()
    return got


@pytest.mark.parametrize("blocking", [True, False])
def test_a_half_close_is_passed_on_after_the_bytes_before_it(both, blocking):
    both.a.setblocking(blocking)
    both.b.setblocking(blocking)
    server, client = Background(answer, both.server), Background(ask, both.client)
    result = relay(both.a, both.b, timeout=30)
    assert client.result() == DATA[::-1]
    server.result()
    assert (result.forth.moved, result.back.moved, result.bytes) == (len(DATA), len(DATA), 2 * len(DATA))
    assert (result.forth.copied, result.forth.path) == (0, "splice-pipe-splice")
    assert both.a.getblocking() is both.b.getblocking() is blocking


def test_narrow_sockets_and_one_page_pipes_lose_nothing():
    both = Both(socket.socketpair)  # so narrow, TCP waits for its timers
    for near, far in ((both.client, both.a), (both.b, both.server)):
        shrink(near, far)
        shrink(far, near)
    server, client = Background(answer, both.server), Background(ask, both.client)
    assert relay(both.a, both.b, timeout=60, pipe_size=1).bytes == 2 * len(DATA)
    assert client.result() == DATA[::-1]
    server.result()
    both.close()


def test_flags_are_left_alone_where_asked_and_the_last_hop_copies(both):
    server, client = Background(answer, both.server), Background(ask, both.client)
    result = relay(both.a, both.b, timeout=30, touch_flags=False)
    assert client.result() == DATA[::-1]
    server.result()
    assert (result.forth.moved, result.forth.copied) == (0, len(DATA))


def test_a_quiet_relay_ends_by_its_deadline_with_what_went_and_flags_as_they_were(both):
    both.client.sendall(b"question")
    with pytest.raises(PumpTimeout) as late:
        relay(both.a, both.b, timeout=0.2)
    assert (late.value.result.forth.bytes, late.value.result.back.bytes) == (8, 0)
    assert both.server.recv(100) == b"question"
    assert both.a.getblocking() and both.b.getblocking()
    with pytest.raises(PumpTimeout, match=r"0\.1 s"):
        relay(both.a, both.b, stall_timeout=0.1)


def test_a_server_that_answers_and_dies_has_its_answer_delivered(both):
    """It takes no more; what it had said still reaches the client, and then the error comes."""
    both.server.sendall(b"503 go away")
    both.server.shutdown(socket.SHUT_RDWR)
    both.server.close()
    stop = threading.Event()

    def keep_asking():
        try:
            while not stop.is_set():
                both.client.send(DATA)
        except OSError:
            pass

    asking = Background(keep_asking)
    try:
        relay(both.a, both.b, timeout=30)
    except PumpError as stopped:
        assert stopped.side in ("sink", "source")
        assert stopped.result.back.bytes == 11
    both.a.close()
    stop.set()
    assert both.client.recv(11) == b"503 go away"
    asking.result()


def test_only_plain_stream_sockets_are_relayed():
    reader, writer = os.pipe()
    near, far = socket.socketpair(type=socket.SOCK_DGRAM)
    a, b = socket.socketpair()
    with near, far, a, b:
        with pytest.raises(TypeError, match="not a socket"):
            relay(a, reader)
        with pytest.raises(TypeError, match="stream"):
            relay(near, a)
        with pytest.raises(ValueError, match="same"):
            relay(a, a)
    os.close(reader)
    os.close(writer)


def test_an_idle_relay_costs_no_processor_time(both):
    import time

    before = time.process_time()
    with pytest.raises(PumpTimeout):
        relay(both.a, both.b, timeout=1)
    assert time.process_time() - before < 0.1
