"""Run a call that blocks, in a child of one thread, and interrupt it again and again.

    blocked("splice(empty, sink, 5)", then="os.write(feeding, b'bytes')")

A timer signal arrives every few milliseconds. Its handler returns, and at its third
run does *then*, which lets the call go on; or it raises at once. pytest-timeout ends what hangs.
"""

import contextlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator

PRELUDE = """
import os, signal, socket, sys
from zerosys import *

# A shell starts what it puts in the background with SIGINT ignored, and Python leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)
empty, feeding = os.pipe()                # nothing to read yet
draining, full = os.pipe()                # no room left
os.set_blocking(full, False)
try:
    while True: os.write(full, bytes(65536))
except BlockingIOError: pass
os.set_blocking(full, True)
near, far = socket.socketpair()           # no room left
near.setblocking(False)
try:
    while True: near.send(bytes(65536))
except BlockingIOError: pass
near.setblocking(True)
sink = os.memfd_create("sink")
source = os.memfd_create("source")
os.write(source, bytes(100)); os.lseek(source, 0, 0)
loaded, loading = os.pipe()
os.write(loading, bytes(100))
runs = 0
"""

CALLS_ON = """
def handler(signum, frame):
    global runs
    runs += 1
    if runs == 3:
        {then}

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
result = {call}
signal.setitimer(signal.ITIMER_REAL, 0)
print(result, runs >= 3)
"""

RAISES = """
class Stop(Exception): pass

def handler(signum, frame):
    raise Stop

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0)
try:
    {call}
except Stop:
    print("stopped", os.lseek(source, 0, 1), pipe_occupancy(loaded))
"""

WAITS = """
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


def _script(body: str, **parts: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + textwrap.dedent(body).format(**parts)]


def _say(body: str, **parts: str) -> str:
    done = subprocess.run(_script(body, **parts), capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.strip()


def goes_on(call: str, then: str) -> str:
    """What *call* returned after at least three signals, then whether there were so many."""
    return _say(CALLS_ON, call=call, then=then)


def stopped(call: str) -> str:
    """What is said once a handler's exception has ended *call*, with what source and pipe have left."""
    return _say(RAISES, call=call)


@contextlib.contextmanager
def waiting(call: str) -> Iterator[subprocess.Popen]:
    """A child that is about to block in *call*; its stdout has said "ready"."""
    with subprocess.Popen(
        _script(WAITS, call=call), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()  # or a test that failed would wait for it for ever
