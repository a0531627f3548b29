"""A region on its way to other processes: by every start method, queue, pipe, pool and socket."""

import gc
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
from counts import descriptors, mappings, nothing_left
from memory import PAGE

from zerosys import handle
from zerosys.policy import Bind
from zerosys.region import SharedRegion

METHODS = ["fork", "spawn", "forkserver"]
# The test run itself has threads at times; forking beside them is what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Mine(SharedRegion):
    """A subclass travels as itself."""


def add_one(region):
    region.array("u1")[:] += 1


def answer(region, back):
    view = region.array("u1")
    back.send((int(view.sum()), region.size, region.policy, type(region).__name__, region.read_only))


def from_queue(queue, back):
    region = queue.get()
    region.array("u1")[:] = 7
    back.send(region.size)


def total(region):
    return int(region.array("u1").sum())


@pytest.fixture(params=METHODS)
def context(request):
    return multiprocessing.get_context(request.param)


@pytest.fixture
def answers(context):
    ours, theirs = context.Pipe(duplex=False)
    yield ours, theirs
    ours.close()
    theirs.close()


def said(ours):
    assert ours.poll(60), "the other process said nothing"
    return ours.recv()


def ended(process):
    process.join(60)
    assert process.exitcode == 0


def test_as_a_process_argument(context):
    with SharedRegion.create(3 * PAGE, pages="base") as region:
        process = context.Process(target=add_one, args=(region,))
        process.start()
        ended(process)
        assert total(region) == 3 * PAGE


def test_what_it_is_travels_with_it(context, answers):
    with Mine.create(PAGE + 1, pages="base", node=0) as region:
        region.array("u1")[:] = 2
        process = context.Process(target=answer, args=(region, answers[1]))
        process.start()
        assert said(answers[0]) == (2 * (PAGE + 1), PAGE + 1, Bind(0), "Mine", False)
        ended(process)


def test_a_read_only_region_arrives_read_only(context, answers):
    with SharedRegion.create(PAGE) as region, region.handle(read_only=True) as given:
        with SharedRegion.attach(given, read_only=True) as reader:
            process = context.Process(target=answer, args=(reader, answers[1]))
            process.start()
            assert said(answers[0])[-1] is True
            ended(process)


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
def test_through_a_queue(context, answers, kind):
    queue = getattr(context, kind)()
    process = context.Process(target=from_queue, args=(queue, answers[1]))
    process.start()
    with SharedRegion.create(PAGE) as region:
        queue.put(region)
        assert said(answers[0]) == PAGE
        ended(process)
        assert total(region) == 7 * PAGE
    queue.close()


def test_through_a_pipe(context, answers):
    ours, theirs = context.Pipe()
    with SharedRegion.create(PAGE) as region:
        process = context.Process(target=from_pipe, args=(theirs, answers[1]))
        process.start()
        ours.send(region)
        assert said(answers[0]) == PAGE
        ended(process)
        assert total(region) == 5 * PAGE
    ours.close()
    theirs.close()


def from_pipe(pipe, back):
    region = pipe.recv()
    region.array("u1")[:] = 5
    back.send(region.size)


def test_through_a_pool(context):
    with SharedRegion.create(PAGE) as region, context.Pool(2) as pool:
        region.array("u1")[:] = 1
        assert pool.map(total, [region] * 5) == [PAGE] * 5
        assert pool.apply(total, (region,)) == PAGE


def test_and_comes_back(context):
    with context.Pool(1) as pool:
        region = pool.apply(born)
        assert region.size == PAGE and total(region) == 3 * PAGE
        region.close()


def born():
    region = SharedRegion.create(PAGE)
    region.array("u1")[:] = 3
    return region


def test_plain_pickle_says_how_it_travels():
    with (
        SharedRegion.create(PAGE) as region,
        pytest.raises(TypeError, match=r"multiprocessing.*handle\.send"),
    ):
        pickle.dumps(region)


STRANGER = """
import socket, sys
from zerosys import handle
from zerosys.region import SharedRegion
sock = socket.socket(fileno=int(sys.argv[1]))
with handle.recv(sock, timeout=30) as given, SharedRegion.attach(given) as region:
    region.array("u1")[:] = 9
    sock.sendall(b"done")
    sock.recv(1)
"""


def stranger(theirs, code=STRANGER):
    return subprocess.Popen([sys.executable, "-c", code, str(theirs.fileno())], pass_fds=[theirs.fileno()])


def test_to_an_unrelated_process_over_a_unix_socket():
    with nothing_left(), SharedRegion.create(PAGE) as region:
        ours, theirs = socket.socketpair()
        with ours, theirs, region.handle() as given, stranger(theirs) as process:
            handle.send(ours, given)
            assert ours.recv(4) == b"done"
            assert total(region) == 9 * PAGE
            ours.close()
            assert process.wait(30) == 0


def test_the_memory_outlives_its_creator():
    code = """
import os, socket, sys
from zerosys import handle
from zerosys.region import SharedRegion
sock = socket.socket(fileno=int(sys.argv[1]))
region = SharedRegion.create(4096)
region.array("u1")[:] = 4
handle.send(sock, region.handle())
os.kill(os.getpid(), 9)
"""
    ours, theirs = socket.socketpair()
    with ours, theirs, stranger(theirs, code) as process:
        with handle.recv(ours, timeout=30) as given:
            assert process.wait(30) == -signal.SIGKILL
            with SharedRegion.attach(given) as region:
                assert total(region) == 4 * 4096


@pytest.mark.parametrize("moment", range(10))
def test_an_attacher_killed_at_any_moment_leaves_the_others_whole(moment):
    ours, theirs = socket.socketpair()
    with nothing_left(), SharedRegion.create(64 * PAGE) as region, region.handle() as given:
        with stranger(theirs) as process:
            handle.send(ours, given)
            if moment:
                ours.settimeout(0.02 * moment)
                try:
                    ours.recv(4)
                except TimeoutError:
                    pass
            process.kill()
            process.wait(30)
        region.array("u1")[:] = 1
        assert total(region) == 64 * PAGE
        with SharedRegion.attach(given) as again:
            assert total(again) == 64 * PAGE
    ours.close()
    theirs.close()


def test_a_forked_child_reads_closes_and_leaves_the_parent_s_alone():
    with SharedRegion.create(PAGE) as region:
        view = np.frombuffer(region, "u1")
        view[:] = 6
        child = os.fork()
        if not child:
            code = 1
            try:
                if view.sum() == 6 * PAGE:
                    view[:] = 8
                    del view
                    region.close()
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert view.sum() == 8 * PAGE
        os.fstat(region.fileno())


def test_many_journeys_leave_nothing():
    context = multiprocessing.get_context("fork")
    with SharedRegion.create(PAGE) as region, context.Pool(1) as pool:
        pool.apply(total, (region,))
        gc.collect()
        before = len(descriptors()), mappings()
        for _ in range(200):
            pool.apply(total, (region,))
        gc.collect()
        assert (len(descriptors()), mappings()) == before
        assert pool.apply(held) < 60


def held():
    gc.collect()
    return len(descriptors())
