"""Context gone, interpreter exit, forked child, reset, region first: left, logged, exit code 0."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
START = """
import gc, logging, os, sys
import cuda_rig
from zerosys import SharedRegion, cuda, pinned
gpu = cuda_rig.rig()
gpu.make_current()
region = SharedRegion.create(1 << 16)
view = memoryview(region)
"""


def run(script):
    """The words that *script* printed, and its log; it must end well."""
    path = os.pathsep.join([str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", START + script],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


# Work that nobody waits for, on a stream of its own.
BUSY = """
stream, there = gpu.stream(), cuda.DevicePool(0)
pool = cuda.SlotPool.create(2, 4096, device=0)
work = there.acquire(4096)
gpu.fill(work.pointer, 1, 4096, stream)
"""
PIPELINE = """
import threading, time
blocks = cuda.HostPool(device=0)
slow = cuda.Pipeline(iter(lambda: blocks.acquire(4096), None), lambda *all: time.sleep(0.01), device=0)
threading.Thread(target=slow.run, daemon=True).start()
time.sleep(0.2)
"""
ENDS = {
    "a registration alive": "made = cuda.register(region)",
    "in a cycle": "made = cuda.register(region); cycle = [made]; cycle.append(cycle)",
    "as a global of a module": "made = cuda.register(region); sys.modules['kept'] = made",
    "a view alive": "made = cuda.register(region); seen = cuda.DeviceView(region)",
    "a staged view alive": "seen = cuda.DeviceView(bytearray(5000), 'inout')",
    "pools alive": "pool = cuda.HostPool(); block = pool.acquire(5000); there = cuda.DevicePool().acquire(9)",
    "free blocks": "pool = cuda.HostPool(); pool.warm_up(5000); d = cuda.DevicePool(); d.warm_up(99)",
    "write-combined memory": "pool = cuda.HostPool(write_combined=True); block = pool.acquire(5000)",
    "a fence that nobody waited for": "fence = cuda.Fence(gpu.stream())",
    "a capsule": "made = cuda.register(region); capsule = made.__dlpack__()",
    "an array over a capsule": "import numpy; made = cuda.register(region)\n"
    "sys.modules['kept'] = numpy.from_dlpack(made)",
    "an exception": "made = cuda.register(region); seen = cuda.DeviceView(region)\n"
    "try:\n    raise KeyError\nexcept KeyError as error:\n    kept = error",
    "sys.exit in a with": "with cuda.register(region):\n    sys.exit(0)",
    "kept for the next block": "with cuda.pinned(region, budget='1MiB'): pass",
    "a slot that waits for a device": f"{BUSY}pool.acquire().release(after=stream)",
    "a slot and a block that are held": f"{BUSY}slot = pool.acquire(); block = there.acquire(4096)",
    "blocks that wait for a device": f"{BUSY}there.acquire(4096).release(after=stream)",
    "a pipeline that a thread is in": f"{BUSY}{PIPELINE}",
}


@pytest.mark.parametrize("script", ENDS.values(), ids=ENDS)
def test_the_interpreter_ends_well(script):
    assert run(script) == ([], "")


def test_nothing_is_called_at_exit():
    words, log = run("""
import atexit
made, seen = cuda.register(region), cuda.DeviceView(region)
pool = cuda.HostPool(); block = pool.acquire(5000)
before = gpu.watched.calls.total()
class Last:
    def __del__(self, calls=gpu.watched.calls, write=os.write, before=before):
        write(1, b"%d" % (calls.total() - before))
sys.modules["zz"] = Last()
""")
    assert words == ["0"] and log == ""


def test_a_registration_survives_a_fork_and_its_child_calls_nothing():
    words, _ = run("""
logging.basicConfig(level=logging.DEBUG, format="%(message)s", stream=sys.stderr)
view[:4] = b"abcd"
made = cuda.register(region)
pool = cuda.HostPool(); block = pool.acquire(5000)
pid = os.fork()
if not pid:
    calls = gpu.watched.calls.total()
    good = bytes(view[:4]) == b"abcd" and region.pinned == 0 and pinned.ranges() == []
    view[4:8] = b"efgh"
    made.close()
    view.release()
    region.close()
    del made, block, pool
    gc.collect()
    good = good and gpu.watched.calls.total() == calls
    os._exit(0 if good else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(region.pinned == 1 << 16, bytes(view[4:8]).decode())
made.close()
print(gpu.unregister(region.address))
""")
    assert words == ["0", "True", "efgh", "713"]


def test_a_child_that_ends_by_itself_ends_well():
    words, log = run("""
made = cuda.register(region)
seen = cuda.DeviceView(region)
pid = os.fork()
if not pid:
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), made.pinned)
""")
    assert words == ["0", "65536"] and log == ""


def test_a_region_can_be_closed_in_a_child_before_its_registration():
    words, _ = run("""
made = cuda.register(region)
pid = os.fork()
if not pid:
    view.release()
    region.close()
    made.close()
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), made.pinned)
""")
    assert words == ["0", "65536"]


def test_register_in_a_child_is_an_error_that_says_spawn():
    words, _ = run("""
made = cuda.register(region)
pid = os.fork()
if not pid:
    for call in (
        lambda: cuda.register(region, 0), lambda: cuda.HostPool(device=0), lambda: cuda.DevicePool(0)
    ):
        try:
            call()
        except cuda.CudaError as error:
            assert error.code == 3 and "spawn" in str(error), error
        else:
            os._exit(1)
    if cuda.memory_model() or "spawn" not in cuda.memory_model().reason:
        os._exit(2)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
    assert words == ["0"]


def test_a_fork_while_a_thread_holds_a_lock_leaves_the_child_able_to_say_no():
    words, _ = run("""
import threading
from zerosys.cuda import backend, counters, pins, working_set
go, held = threading.Event(), threading.Barrier(5)
def hold(lock):
    with lock:
        held.wait()
        go.wait()
for lock in (backend._loading, counters.counters.lock, pins.lock, working_set._lock):
    threading.Thread(target=hold, args=[lock], daemon=True).start()
held.wait()
pid = os.fork()
if not pid:
    import faulthandler
    faulthandler.dump_traceback_later(20, exit=True)
    backend._loaded = None  # as if the first of all loads was under way
    def bindings():
        raise cuda.CudaError(3, "cuInit", "a fork")
    backend._bindings = bindings
    for call in (lambda: cuda.register(region, 0), lambda: cuda.pinned(region, device=0).__enter__()):
        try:
            call()
        except cuda.CudaError as error:
            assert error.code == 3, error
        else:
            os._exit(1)
    cuda.release_pinned(), cuda.stats()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
go.set()
""")
    assert words == ["0"]


def test_after_a_reset_it_is_left_and_logged():
    words, log = run("""
made = cuda.register(region)
gpu.reset()
calls = gpu.watched.calls["host_unregister"]
made.close()
print(gpu.watched.calls["host_unregister"] - calls, region.pinned, made.closed)
view.release()
region.close()
""")
    assert words == ["0", "0", "True"]
    assert "left to the driver: its CUDA context is gone" in log


def test_after_a_reset_and_a_new_context_it_is_left_too():
    words, log = run("""
made = cuda.register(region)
gpu.reset()
gpu.make_current()
made.close()
print(gpu.unregister(region.address))
with cuda.register(region) as again:
    print(again.registered_by, gpu.watched.inner.alive(again._pin.context))
print(gpu.unregister(region.address))
""")
    assert words == ["713", "us", "True", "713"]
    assert "its CUDA context is gone" in log


def test_memory_is_registered_anew_after_a_reset_under_a_registration():
    words, _ = run("""
made = cuda.register(region)
gpu.reset()
gpu.make_current()
again = cuda.register(region)
print(again.registered_by, gpu.watched.calls["host_register"])
made.close()
print(region.pinned, gpu.register(region.address, 1 << 16))
with cuda.DeviceView(region, "out", strict=True) as seen:
    gpu.fill(seen.pointer, 5, 1 << 16)
print(view[-1])
again.close()
print(region.pinned, gpu.unregister(region.address))
""")
    assert words == ["us", "2", "65536", "712", "5", "0", "713"]


def test_pools_and_fences_survive_a_reset():
    words, log = run("""
pool, device = cuda.HostPool(), cuda.DevicePool()
block, there = pool.acquire(5000), device.acquire(99)
fence = cuda.Fence(0)
gpu.reset()
del fence
block.release(); there.release()
pool.close(); device.close()
gpu.make_current()
with cuda.DeviceView(bytearray(5000), "inout") as seen:
    print(seen.staged)
""")
    assert words == ["True"]
    assert log.count("is left to the driver") >= 2


def test_a_region_that_goes_first_is_unregistered_first():
    words, log = run("""
made = cuda.register(region)
address = region.address
view.release()
with region:
    pass
print(region.closed)
del made
gc.collect()
print(gpu.unregister(address), pinned.ranges())
""")
    assert words == ["True", "713", "[]"] and log == ""


def test_daemonizing_by_a_bare_fork_is_seen_too():
    """A fork that no hook of Python's saw, as a C library makes it."""
    words, _ = run("""
import ctypes
made = cuda.register(region)
pid = ctypes.PyDLL(None).fork()
if not pid:
    calls = gpu.watched.calls.total()
    made.close()
    os._exit(0 if gpu.watched.calls.total() == calls else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), made.pinned)
""")
    assert words == ["0", "65536"]


def test_a_killed_process_leaves_its_memory_registrable_for_others():
    words, _ = run("""
import signal, subprocess, time
child = subprocess.Popen([sys.executable, "-c", '''
import sys, time
import cuda_rig
from zerosys import SharedRegion, cuda
gpu = cuda_rig.rig()
region = SharedRegion.attach(int(sys.argv[1]))
made = cuda.register(region, 0)
print(made.pinned, flush=True)
time.sleep(100)
''', str(region.fileno())], pass_fds=[region.fileno()], stdout=subprocess.PIPE)
print(child.stdout.readline().decode())
with cuda.register(region) as made:
    child.kill(); child.wait(); child.stdout.close()
    print(made.pinned)
    with cuda.DeviceView(region, "out") as seen:
        gpu.fill(seen.pointer, 1, 1 << 16)
print(view[0], view[-1])
""")
    assert words == ["65536", "65536", "1", "1"]
