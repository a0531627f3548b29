"""Windows that go back when a device has finished: any library's events and streams, in order."""

import numpy as np
import pytest

from zerosys import StreamRing
from zerosys.window import DeviceEvent, Returns


class Event:
    """Has what torch's and numba's events have."""

    def __init__(self):
        self.happened, self.waits = False, 0

    def query(self):
        return self.happened

    def synchronize(self):
        self.happened, self.waits = True, self.waits + 1


class TorchStream(Event):
    def record_event(self):
        self.event = Event()
        return self.event


class CupyEvent:
    def __init__(self):
        self.done = False

    def record(self, stream=None):
        raise AssertionError("an event is not recorded anew")

    def synchronize(self):
        self.done = True


class CupyStream:
    done = False

    def wait_event(self, event): ...

    def record(self):
        self.event = CupyEvent()
        return self.event


class CoreEvent:
    def __init__(self):
        self.is_done = False

    def sync(self):
        self.is_done = True


class OnlySync:
    def __init__(self):
        self.waits = 0

    def synchronize(self):
        self.waits += 1


def test_each_librarys_words_are_understood():
    torch, cupy, core = TorchStream(), CupyStream(), CoreEvent()
    events = [DeviceEvent(torch), DeviceEvent(cupy), DeviceEvent(core)]
    assert [event.happened() for event in events] == [False] * 3
    torch.event.happened = cupy.event.done = core.is_done = True
    assert [event.happened() for event in events] == [True] * 3
    blind = OnlySync()
    assert DeviceEvent(blind).happened() and blind.waits == 1
    with pytest.raises(TypeError, match="event or stream"):
        DeviceEvent(object())


def test_things_go_back_in_order():
    first, second = Event(), Event()
    returns, back = Returns(), []
    for event, name in ((first, "a"), (second, "b"), (None, "c")):
        returns.add(event, lambda name=name: back.append(name))
    second.happened = True
    returns.reap()
    assert back == [] and len(returns) == 3
    first.happened = True
    returns.reap()
    assert back == ["a", "b", "c"]


class Lost(Event):
    """What a stream's failure makes of its events: whoever asks is told, again and again."""

    def query(self):
        raise RuntimeError("the device is lost")

    synchronize = query


def test_an_event_that_raises_is_told_once_and_goes_back_with_what_comes_after():
    returns, back, last = Returns(), [], Event()
    for event, name in ((Lost(), "a"), (Lost(), "b"), (last, "c")):
        returns.add(event, lambda name=name: back.append(name))
    for wait in (False, True):
        with pytest.raises(RuntimeError, match="lost"):
            returns.reap(wait=wait)
    returns.reap()
    assert back == [] and len(returns) == 3
    last.happened = True
    returns.reap()
    assert back == ["a", "b", "c"] and len(returns) == 0


def test_a_ring_outlives_an_event_that_raises():
    with StreamRing.create(4096, "i4") as ring, ring.writer() as w:
        with ring.reader() as r:
            w.write(np.arange(1024, dtype="i4"))
            r.peek(600).release(after=Lost())
            with pytest.raises(RuntimeError, match="lost"):
                r.peek(1)
            assert w.room_now == 0  # the device may be at it still
            r.peek(100).release()
            with r.peek(1) as window:
                assert window[0] == 700 and w.room_now == 700
            r.peek(10).release(after=Lost())
            with pytest.raises(RuntimeError, match="lost"):
                r.close()
        w.close()
        ring.close()  # nothing is left of the reader


def test_a_window_is_released_when_the_device_is_done():
    with StreamRing.create(4096, "i4") as ring, ring.writer() as w, ring.reader() as r:
        w.write(np.arange(1024, dtype="i4"))
        event = Event()
        r.peek(600).release(after=event)
        assert r.available == 424 and r.lag == 1024 and w.room_now == 0
        r.peek(100).release()  # goes back after it, since counts go in order
        assert r.lag == 1024
        event.happened = True
        with r.peek(10) as window:
            assert window[0] == 700 and w.room_now == 700


def test_a_reader_that_waits_looks_at_its_devices():
    class Soon(Event):
        looks = 0

        def query(self):
            self.looks += 1
            return self.looks > 3

    with StreamRing.create(4096, "i4") as ring, ring.writer() as w, ring.reader(spin=0) as r:
        w.write(np.arange(1024, dtype="i4"))
        r.peek(1024).release(after=Soon())
        with pytest.raises(TimeoutError):
            r.peek(1, timeout=1)  # many looks, on a busy machine too
        assert w.room_now == 1024


def test_closing_waits_for_devices():
    event = Event()
    with StreamRing.create(4096, "i4") as ring, ring.writer() as w:
        with ring.reader() as r:
            w.write(np.arange(10, dtype="i4"))
            r.peek(10).release(after=event)
        assert event.waits == 1 and w.room_now == 1024


def test_what_is_no_event_leaves_the_window_open():
    with StreamRing.create(4096, "i4") as ring, ring.writer() as w, ring.reader() as r:
        w.write(np.arange(10, dtype="i4"))
        window = r.peek(10)
        with pytest.raises(TypeError, match="event or stream"):
            window.release(after=5)
        assert not window.closed and r.available == 10
        window.release()


class Method:
    """Says "done" by a method, which as a value would be true at once."""

    def __init__(self):
        self.passed = False

    def done(self):
        return self.passed


def test_a_word_that_is_a_method_is_called():
    event = Method()
    asked = DeviceEvent(event)
    assert not asked.happened()
    event.passed = True
    assert asked.happened()


def test_waiting_for_an_event_that_can_only_be_asked_sleeps_in_between():
    class Later(Method):
        asked = 0

        def done(self):
            self.asked += 1
            return self.asked > 20

    event = Later()
    DeviceEvent(event).wait()
    assert event.asked == 21
