"""What runs inside a ring's own call may not use the same end: a signal's handler, or an iterator."""

import os
import signal

import pytest

from zerosys import MessageRing, StreamRing

WAITS = {
    "claim": (StreamRing, lambda w, r: w.claim(4096, 0.2)),
    "write": (MessageRing, lambda w, r: w.write(bytes(4096), 0.2)),
    "peek": (StreamRing, lambda w, r: r.peek(4096, 0.2)),
    "read": (MessageRing, lambda w, r: (r.skip(), r.read(0.2))),
}


def outcome(call, *words):
    try:
        call(*words)
    except (TimeoutError, ValueError) as failure:
        return str(failure)
    return "nothing was raised"


@pytest.mark.untraced
@pytest.mark.parametrize(("kind", "wait"), WAITS.values(), ids=WAITS)
def test_a_child_that_a_signals_handler_forks_does_not_go_on_with_its_parents_wait(kind, wait):
    make = {"dtype": "u1"} if kind is StreamRing else {}
    children = []
    with kind.create(4096, **make) as ring, ring.writer() as w, ring.reader() as r:
        w.write(b"x")
        before = signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        said = outcome(wait, w, r)
        if children == [0]:
            os._exit("belongs to the process that was forked" not in said)
        signal.signal(signal.SIGALRM, before)
        assert "within 0.2 s" in said
        _, status = os.waitpid(children[0], 0)
        assert os.waitstatus_to_exitcode(status) == 0


@pytest.fixture(params=["items", "messages"])
def ends(request):
    made = StreamRing.create(4096, "u1") if request.param == "items" else MessageRing.create(4096)
    with made as ring, ring.writer() as w, ring.reader() as r:
        yield w, r


def received(r):
    if hasattr(r, "try_read"):
        return b"".join(iter(r.try_read, None))
    with r.peek_some() as window:
        return bytes(window)


def test_what_write_many_iterates_over_cannot_write_between(ends):
    w, r = ends
    said = []

    def parts():
        yield b"one "
        said.append(outcome(w.write, b"two "))
        said.append(outcome(w.close))
        yield b"three"

    w.write_many(parts())
    assert received(r) == b"one three"
    assert all("in the middle of another call" in text for text in said) and len(said) == 2
    w.write(b"four")
    assert received(r) == b"four"


def test_the_writer_goes_on_after_an_iterator_that_failed(ends):
    w, r = ends

    def parts():
        yield b"one "
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more") as failure:
        w.write_many(parts())
    assert failure.value.moved > 0
    w.write(b"two")
    assert received(r) == b"one two"


def test_an_iterator_that_forks_leaves_its_child_nothing_to_publish(ends):
    w, r = ends
    children = []

    def parts():
        yield b"one "
        children.append(os.fork())
        yield b"two"

    said = outcome(w.write_many, parts())
    if children == [0]:
        os._exit("belongs to the process that was forked" not in said)
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert received(r) == b"one two"
