"""A hundred thousand lives of each kind, and nothing grows: descriptors, mappings, threads, memory."""

import os
import resource
import socket

import numpy as np
import pytest
from counts import nothing_left
from memory import PAGE

from zerosys import _mmap, handle, names
from zerosys._mmap import Mapping
from zerosys.region import SharedRegion

TIMES = 100_000
SOME = 2_000  # in every run of the tests
NAME = f"zerosys-lives-{os.getpid()}"
PATH = f"{names.SHM}/{NAME}"
stress = [pytest.mark.stress, pytest.mark.timeout(1200)]


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


def named():
    with SharedRegion.create(PAGE, name=NAME, pages="base") as made:
        made.unlink()


def named_and_placed():
    with SharedRegion.create(PAGE, name=NAME, pages="base", node=0, mode=0o644) as made:
        assert made.verify().ok
        made.unlink()


def named_and_attached():
    with SharedRegion.create(PAGE, name=NAME, pages="base") as made, SharedRegion.attach(NAME) as other:
        memoryview(other)[0] = 1
        made.unlink()


def named_and_dropped():
    SharedRegion.create(PAGE, name=NAME, pages="base").unlink()


def kept():
    SharedRegion.create(PAGE, name=NAME, pages="base", keep=True).close()
    with SharedRegion.attach(NAME, read_only=True) as other:
        other.unlink()


def orphaned_and_collected():
    SharedRegion.create(PAGE, name=NAME, pages="base").close()
    assert names.collect(PATH)


def taken():
    with SharedRegion.create(PAGE, name=NAME, pages="base") as made:
        try:
            SharedRegion.create(PAGE, name=NAME)
        except FileExistsError:
            made.unlink()


def foreign():
    with open(PATH, "xb") as file:
        file.truncate(PAGE)
    with SharedRegion.attach(NAME) as other:
        other.unlink()


LIVES = [
    region, placed_region, dropped_region, left_under_a_view, refused_close, failed_create, stale_array,
    mapping, attached, sent,
]  # fmt: skip
NAMED = [
    named, named_and_placed, named_and_attached, named_and_dropped, kept, orphaned_and_collected, taken,
    foreign,
]  # fmt: skip


def live(life, times):
    """Live *times* lives, and fail if anything grows."""
    for _ in range(min(times, 1000)):
        life()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with nothing_left():
        for _ in range(times):
            life()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4 << 10  # KiB
    assert not os.path.lexists(PATH)


@pytest.mark.parametrize("life", NAMED)
def test_nothing_grows_in_some_lives_with_a_name(life):
    live(life, SOME)


@pytest.mark.parametrize("life", [pytest.param(life, marks=stress) for life in LIVES + NAMED])
def test_nothing_grows(life):
    live(life, TIMES)


@pytest.mark.stress
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("threads", [2, 4])
def test_populating_by_threads_leaves_nothing(threads):
    with Mapping(None, 1 << 20) as made, nothing_left():
        for _ in range(10_000):
            made.populate(threads=threads)
