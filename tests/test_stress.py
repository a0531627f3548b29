"""A hundred thousand lives of each kind, and nothing grows: descriptors, mappings, threads, memory."""

import resource
import socket

import numpy as np
import pytest
from counts import nothing_left
from memory import PAGE

from zerosys import _mmap, handle
from zerosys._mmap import Mapping
from zerosys.region import SharedRegion

TIMES = 100_000
pytestmark = [pytest.mark.stress, pytest.mark.timeout(1200)]


def region():
    with SharedRegion.create(PAGE, pages="base") as made:
        memoryview(made)[0] = 1


def placed_region():
    with SharedRegion.create(PAGE, pages="base", node=0) as made:
        assert made.verify().ok


def dropped_region():
    SharedRegion.create(PAGE, pages="base").array("u1")[0] = 1


def left_under_a_view():
    with SharedRegion.create(PAGE, pages="base") as made:
        view = made.array("u1")
    view[:] = 1


def refused_close():
    made = SharedRegion.create(PAGE, pages="base")
    view = memoryview(made)
    try:
        made.close()
    except BufferError:
        view.release()
        made.close()


def failed_create():
    try:
        SharedRegion.create(PAGE, node=900)
    except OSError:
        pass


def stale_array():
    made = SharedRegion.create(PAGE, pages="base")
    array = np.ndarray(PAGE, "u1", buffer=made)
    made.close()
    assert not array[0]


def mapping():
    with Mapping(None, PAGE, flags=_mmap.MAP_PRIVATE) as made:
        made.resize(4 * PAGE)
        made.lock()


def attached():
    with SharedRegion.create(PAGE, pages="base") as made, made.handle() as given:
        SharedRegion.attach(given).close()


def sent():
    ours, theirs = socket.socketpair()
    with ours, theirs, SharedRegion.create(PAGE, pages="base") as made, made.handle() as given:
        handle.send(ours, given)
        with handle.recv(theirs) as got, SharedRegion.attach(got):
            pass


LIVES = [
    region, placed_region, dropped_region, left_under_a_view, refused_close, failed_create, stale_array,
    mapping, attached, sent,
]  # fmt: skip


@pytest.mark.parametrize("life", LIVES)
def test_nothing_grows(life):
    for _ in range(1000):
        life()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with nothing_left():
        for _ in range(TIMES):
            life()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4 << 10  # KiB


@pytest.mark.parametrize("threads", [2, 4])
def test_populating_by_threads_leaves_nothing(threads):
    with Mapping(None, 1 << 20) as made, nothing_left():
        for _ in range(10_000):
            made.populate(threads=threads)
