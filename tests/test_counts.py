"""The counter that the other tests trust sees each kind of leak."""

import mmap
import os
import threading

import pytest
from counts import nothing_left


def test_an_open_descriptor_is_seen():
    with pytest.raises(AssertionError), nothing_left():
        fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)


def test_a_shared_mapping_is_seen():
    with pytest.raises(AssertionError), nothing_left():
        kept = mmap.mmap(-1, 4096)
    kept.close()


def test_a_thread_is_seen():
    go = threading.Event()
    with pytest.raises(AssertionError), nothing_left():
        thread = threading.Thread(target=go.wait)
        thread.start()
    go.set()
    thread.join()


def test_a_joined_thread_is_none_that_stayed():
    for _ in range(50):
        with nothing_left():
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()


def test_nothing_is_seen_where_nothing_stays():
    with nothing_left():
        os.close(os.open("/dev/null", os.O_RDONLY))
        mmap.mmap(-1, 4096).close()
