"""Sets of nodes as text."""

from itertools import pairwise

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosys.errors import PlacementError
from zerosys.nodes import format, parse, parse_list

SETS = st.frozensets(st.integers(0, 1023), max_size=60)


@settings(max_examples=200, deadline=None)
@given(SETS)
def test_what_is_written_reads_back(members):
    text = format(members)
    assert parse_list(text) == members
    if members:
        assert parse(text, set(range(1024))) == parse(members) == members


@settings(max_examples=200, deadline=None)
@given(SETS)
def test_writing_is_the_shortest_and_ascending(members):
    runs = [part.split("-") for part in format(members).split(",") if part]
    edges = [(int(run[0]), int(run[-1])) for run in runs]
    # neighbours would have been one run
    assert all(before[1] + 1 < after[0] for before, after in pairwise(edges))
    assert all(first < last for first, last in edges if first != last)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123456789,- all!+x\u0663\n", max_size=12))
def test_any_text_is_a_set_or_a_value_error(text):
    try:
        members = parse_list(text)
    except ValueError:
        return
    assert parse_list(format(members)) == members


@pytest.mark.parametrize(
    "text, members",
    [
        ("0", {0}),
        ("0,2-5", {0, 2, 3, 4, 5}),
        (" 1 , 3 - 4\n", {1, 3, 4}),
        ("3,1,3", {1, 3}),
        ("5-5", {5}),
        ("", set()),
    ],
)
def test_reads_the_kernels_lists(text, members):
    assert parse_list(text) == members


@pytest.mark.parametrize(
    "text", ["x", "1,,2", ",", "-1", "1-", "5-2", "1_0", "+1", "0x1", "1.5", "\u0663", "0-99999999", "65536"]
)
def test_unreadable_text_names_the_part(text):
    with pytest.raises(ValueError, match=r"' in '"):
        parse_list(text)


def test_takes_numbers_iterables_and_all():
    known = {0, 3}
    assert parse(3, known) == parse([3], known) == parse("3", known) == parse(iter({3})) == {3}
    assert parse("all", known) == {0, 3}
    assert parse(range(2)) == {0, 1}
    assert parse(numpy.array([0, 3]), known) == {0, 3} and parse(numpy.int64(3), known) == {3}


@pytest.mark.parametrize(
    "spec, kind",
    [
        (1.5, TypeError),
        (True, TypeError),
        ([1.5], TypeError),
        (["0"], TypeError),
        (None, TypeError),
        (-1, ValueError),
        ([-1], ValueError),
        (1 << 70, ValueError),
        ([], ValueError),
        ("", ValueError),
    ],
)
def test_refuses_what_is_no_set_of_nodes(spec, kind):
    with pytest.raises(kind):
        parse(spec, {0, 1})


def test_unknown_node_is_an_error_that_names_the_machines_nodes():
    with pytest.raises(PlacementError, match=r"node 4,7 does not exist; this machine's nodes: 0-2,8"):
        parse("1,4,7", {0, 1, 2, 8})
    with pytest.raises(ValueError, match="needs a machine"):
        parse("all")
