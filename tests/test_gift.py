"""Pages given to a pipe are the pipe's: only whole ones that nobody else can write (FAULTS S2)."""

import os

import pytest
from counts import nothing_left
from memory import PAGE

from zerosys import _mmap
from zerosys._mmap import Mapping
from zerosys._splice import set_pipe_capacity, splice, vmsplice
from zerosys.flags import SpliceFlag
from zerosys.region import SharedRegion

GIFT = SpliceFlag.GIFT


@pytest.fixture
def pipe():
    r, w = os.pipe()
    set_pipe_capacity(w, 16 * PAGE)
    yield r, w
    os.close(r)
    os.close(w)


def private(pages):
    m = Mapping(None, pages * PAGE, flags=_mmap.MAP_PRIVATE)
    with memoryview(m) as view:
        for page in range(pages):
            view[page * PAGE : (page + 1) * PAGE] = bytes([page + 1]) * PAGE
    return m


def test_what_was_given_cannot_be_changed_by_the_giver_in_any_later_pipe(pipe):
    r2, w2 = os.pipe()
    with private(2) as m:
        assert vmsplice(pipe[1], m, GIFT) == 2 * PAGE
        assert splice(pipe[0], w2, PAGE) == PAGE
        assert bytes(m) == bytes(2 * PAGE)  # fresh zero pages stand in their place
        with memoryview(m) as view:
            view[:] = b"x" * (2 * PAGE)
        assert os.read(r2, PAGE) == b"\1" * PAGE
        assert os.read(pipe[0], PAGE) == b"\2" * PAGE
    os.close(r2)
    os.close(w2)


def test_a_short_count_gives_only_what_it_counts_and_the_rest_can_follow(pipe):
    with private(24) as m:
        given = vmsplice(pipe[1], m, GIFT | SpliceFlag.NONBLOCK)
        assert given == 16 * PAGE
        with memoryview(m) as view:
            assert view[0] == 0 and view[16 * PAGE] == 17
        data = os.read(pipe[0], 16 * PAGE)
        with memoryview(m)[given:] as rest:
            assert vmsplice(pipe[1], rest, GIFT) == 8 * PAGE
        data += os.read(pipe[0], 16 * PAGE)
        assert data == b"".join(bytes([page + 1]) * PAGE for page in range(24))


def test_the_pages_outlive_the_mapping(pipe):
    m = private(1)
    vmsplice(pipe[1], m, GIFT)
    m.close()
    del m
    assert os.read(pipe[0], PAGE) == b"\1" * PAGE


def test_a_locked_mapping_can_be_given(pipe):
    with private(1) as m:
        m.lock()
        assert vmsplice(pipe[1], m, GIFT) == PAGE
        assert os.read(pipe[0], PAGE) == b"\1" * PAGE and bytes(m) == bytes(PAGE)


@pytest.mark.parametrize("part", [slice(0, 100), slice(1, PAGE + 1), slice(0, PAGE + 1), slice(0, 0)])
def test_parts_of_pages_are_refused_and_nothing_moves(pipe, part):
    with private(2) as m, memoryview(m)[part] as view:
        with pytest.raises(ValueError, match="whole pages"):
            vmsplice(pipe[1], view, GIFT)
        assert bytes(m)[0] == 1


def test_shared_memory_is_refused_since_a_peer_could_write_it(pipe):
    with Mapping(None, PAGE) as shared, pytest.raises(ValueError, match="private anonymous"):
        vmsplice(pipe[1], shared, GIFT)
    with SharedRegion.create(PAGE) as region, pytest.raises(ValueError, match="private anonymous"):
        vmsplice(pipe[1], region, GIFT)
    fd = os.memfd_create("file")
    os.ftruncate(fd, PAGE)
    with Mapping(fd, PAGE, flags=_mmap.MAP_PRIVATE) as file:
        with pytest.raises(ValueError, match="private anonymous"):
            vmsplice(pipe[1], file, GIFT)
    os.close(fd)


def test_memory_under_another_view_is_refused(pipe):
    with private(1) as m:
        with memoryview(m), pytest.raises(BufferError, match="1 other live view"):
            vmsplice(pipe[1], m, GIFT)
        assert vmsplice(pipe[1], m, GIFT) == PAGE


def test_several_mappings_are_given_in_one_call(pipe):
    with private(1) as a, private(2) as b:
        assert vmsplice(pipe[1], [a, b], GIFT) == 3 * PAGE
        assert os.read(pipe[0], 3 * PAGE) == b"\1" * PAGE + b"\1" * PAGE + b"\2" * PAGE
        assert not any(bytes(a)) and not any(bytes(b))


def test_a_thousand_gifts_leave_nothing(pipe):
    with nothing_left():
        for _ in range(1000):
            with private(2) as m:
                vmsplice(pipe[1], m, GIFT)
                os.read(pipe[0], 2 * PAGE)
