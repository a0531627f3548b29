"""A call that blocks answers signals: a handler that returns lets it go on, one that raises ends it."""

import os
import platform
import signal
from pathlib import Path

import pytest
from interrupted import goes_on, stopped, waiting
from seccomp import ARCHITECTURES, CALLS

DRAIN_PIPE = "os.read(draining, 1 << 20)"
DRAIN_SOCKET = "far.recv(1 << 24)"
BLOCKING = {  # the call that blocks, what lets it go on, and what it then returns
    "splice from an empty pipe": ("splice(empty, sink, 5)", "os.write(feeding, b'bytes')", 5),
    "splice to a full pipe": ("splice(source, full, 100)", DRAIN_PIPE, 100),
    "splice to a full socket": ("splice(loaded, near, 100)", DRAIN_SOCKET, 100),
    "splice from an empty socket": ("splice(far_empty, feeding, 5)", "near_empty.send(b'bytes')", 5),
    "tee from an empty pipe": ("tee(empty, loading, 5)", "os.write(feeding, b'bytes')", 5),
    "tee to a full pipe": ("tee(loaded, full, 100)", DRAIN_PIPE, 100),
    "vmsplice to a full pipe": ("vmsplice(full, bytes(100))", DRAIN_PIPE, 100),
    "vmsplice of several": ("vmsplice(full, [bytes(60), bytes(40)])", DRAIN_PIPE, 100),
    "sendfile to a full pipe": ("sendfile(full, source, None, 100)", DRAIN_PIPE, 100),
    "sendfile to a full socket": ("sendfile(near, source, None, 100)", DRAIN_SOCKET, 100),
}
SOCKETS = "(pair := socket.socketpair()) and globals().update(near_empty=pair[0], far_empty=pair[1]) or "


def spelled(call):
    return SOCKETS + call if "far_empty" in call else call


@pytest.mark.parametrize("what", BLOCKING)
def test_a_call_goes_on_after_a_handler_that_returns_and_ends_whole(what):
    call, then, moved = BLOCKING[what]
    assert goes_on(spelled(call), then) == f"{moved} True"


@pytest.mark.untraced
@pytest.mark.parametrize("what", BLOCKING)
def test_a_handler_that_raises_ends_the_call_and_nothing_is_lost(what):
    assert stopped(spelled(BLOCKING[what][0])) == "stopped 0 100"


def blocked_in(child, call):
    """Whether *child* waits inside the system call *call*."""
    column = ARCHITECTURES[platform.machine()][1]
    words = Path(f"/proc/{child.pid}/syscall").read_text().split()
    return words[0] == str(CALLS[call][column])


@pytest.mark.untraced
@pytest.mark.parametrize("what", BLOCKING)
def test_control_c_ends_a_call_that_blocks(what):
    call = BLOCKING[what][0]
    with waiting(spelled(call)) as child:
        while not blocked_in(child, what.split()[0]):
            os.sched_yield()
        child.send_signal(signal.SIGINT)
        assert child.communicate() == ("KeyboardInterrupt\n", "")
