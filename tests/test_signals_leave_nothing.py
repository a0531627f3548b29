"""A signal handler that raises at any moment of making, passing or attaching memory: nothing is left."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, random, signal, socket, sys, time
sys.path.insert(0, {tests!r})
from counts import nothing_left
from zerosys import SharedRegion, handle
from zerosys._transfer import Transfer

class Stop(Exception): pass

def stop(*_):
    raise Stop

swallowed = []
sys.unraisablehook = swallowed.append
signal.signal(signal.SIGALRM, stop)
region = SharedRegion.create(4096)
passed = region.handle()
source, sink = os.memfd_create("source"), os.memfd_create("sink")
os.write(source, bytes(100_000))

a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

def life():
    {life}

def tidy():
    try:
        while True: handle.recv(b, timeout=0).close()
    except TimeoutError: pass

def once(most):
    '''Run one life with an alarm in it, at most *most* seconds away.'''
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, random.random() * most))
            life()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop:
        tidy()
        return 1
    return 0

for _ in range(20): life()
begin = time.perf_counter()
for _ in range(100): life()
whole = (time.perf_counter() - begin) / 100
with nothing_left():
    stopped = sum(once(2 * whole) for _ in range(4000))
print(stopped > 100, [repr(it.exc_value) for it in swallowed])
"""

LIVES = {
    "create": "SharedRegion.create(4096).close()",
    "attach": "SharedRegion.attach(passed).close()",
    "handle": "region.handle().close()",
    "read-only handle": "region.handle(read_only=True).close()",
    "send and receive": "handle.send(a, passed); handle.recv(b, timeout=9).close()",
    "transfer": "Transfer(source, sink, offset_src=0, offset_dst=0).run()",
}


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_a_handler_that_raises_at_any_moment_leaves_nothing(life):
    script = SCRIPT.format(tests=str(Path(__file__).parent), life=life)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True []\n", "")
