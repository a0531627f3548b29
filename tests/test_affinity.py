"""Where a thread runs, for the length of a block."""

import os
import threading

import pytest

from zerosys import _numa
from zerosys.affinity import run_on
from zerosys.errors import PlacementError, PlacementWarning

NODE = _numa.getcpu()[1]
FOREIGN = _numa.max_node() + 1


def test_thread_runs_on_the_node_inside_and_as_before_after():
    before = os.sched_getaffinity(0)
    cpu = min(before)
    with run_on(cpus=cpu) as outer:
        assert os.sched_getaffinity(0) == outer == {cpu}
        with pytest.raises(ZeroDivisionError), run_on(NODE) as inner:
            assert {_numa.node_of_cpu(each) for each in inner} == {NODE}
            raise ZeroDivisionError
        assert os.sched_getaffinity(0) == {cpu}
    assert os.sched_getaffinity(0) == before


def test_only_the_calling_thread_is_pinned():
    before, seen = os.sched_getaffinity(0), []
    cpu = min(before)
    ready, done = threading.Event(), threading.Event()

    def other():
        ready.wait()
        seen.append(os.sched_getaffinity(0))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with run_on(cpus=[cpu]):
        ready.set()
        done.wait()
    thread.join()
    assert seen == [before]


def test_all_is_every_cpu_that_is_online():
    with run_on("all") as cpus:
        assert cpus == os.sched_getaffinity(0)


def test_unknown_nodes_and_cpus_are_errors_and_change_nothing():
    before = os.sched_getaffinity(0)
    for refused in (
        lambda: run_on(FOREIGN),
        lambda: run_on(cpus=60000),
        lambda: run_on(cpus=60000, strict=False),
    ):
        with pytest.raises(PlacementError), refused():
            pass
    for wrong in (lambda: run_on(), lambda: run_on(0, cpus=0), lambda: run_on("")):
        with pytest.raises(ValueError), wrong():
            pass
    assert os.sched_getaffinity(0) == before


def test_cpu_that_is_not_online_is_left_out_with_a_warning_if_not_strict():
    cpu = min(os.sched_getaffinity(0))
    with pytest.raises(PlacementError, match="CPU 60000 is not online"), run_on(cpus={cpu, 60000}):
        pass
    with pytest.warns(PlacementWarning, match="60000"), run_on(cpus={cpu, 60000}, strict=False) as cpus:
        assert cpus == {cpu}
