"""Sets of nodes as text."""

import re
from itertools import pairwise

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosys.errors import PlacementError
from zerosys.nodes import format, is_plain, parse, parse_list

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
def test_any_text_is_a_set_or_a_named_error(text):
    try:
        members = parse(text, KNOWN, everything=USABLE, previous={3}, select=lambda part: [0])
    except (ValueError, PlacementError):
        return
    assert members and members <= KNOWN
    assert parse(format(members), KNOWN) == members


def written(parts):
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


@st.composite
def ranges(draw, among):
    ends = draw(st.lists(st.tuples(st.sampled_from(among), st.sampled_from(among)), min_size=1, max_size=5))
    return [tuple(sorted(pair)) for pair in ends]


#: A machine with gaps in its numbers, of which some may not be used.
KNOWN = frozenset({0, 1, 2, 5, 6, 8, 250, 251})
USABLE = frozenset({1, 2, 6, 8})


@settings(max_examples=300, deadline=None)
@given(ranges(sorted(KNOWN)), st.booleans())
def test_lists_are_the_known_between_the_ends_and_an_exclamation_mark_the_other_usable_ones(parts, inverse):
    meant = {node for node in KNOWN for low, high in parts if low <= node <= high}
    if inverse:
        meant = USABLE - meant
    text = "!" * inverse + written(parts)
    if not meant:
        with pytest.raises(ValueError, match=re.escape(f"{text!r} is an empty set of nodes")):
            parse(text, KNOWN, everything=USABLE)
    else:
        assert parse(text, KNOWN, everything=USABLE) == meant


@settings(max_examples=300, deadline=None)
@given(ranges([0, 1, 2, 3]), st.booleans())
def test_a_plus_counts_within_the_usable(parts, inverse):
    meant = {sorted(USABLE)[n] for low, high in parts for n in range(low, high + 1)}
    if inverse:
        meant = USABLE - meant
    text = "!" * inverse + "+" + written(parts)
    if meant:
        assert parse(text, KNOWN, everything=USABLE) == meant


@pytest.mark.parametrize(
    "text, members",
    [
        ("all", USABLE),
        ("!0", USABLE),
        ("! 1", {2, 6, 8}),
        ("!+0", {2, 6, 8}),
        ("+all", USABLE),
        ("0,all", {0, *USABLE}),
        ("all,0", {0, *USABLE}),
        ("same", {5}),
        ("cuda:0", {5, 6}),
        ("0,cuda:0,250", {0, 5, 6, 250}),
        ("!cuda:0", {1, 2, 8}),
        ("file:/a,b", {0, 8}),
        ("2,block:/a,b", {0, 2, 8}),
    ],
)
def test_reads_numactls_words(text, members):
    places = {"cuda:0": [5, 6], "file:/a,b": [0, 8], "block:/a,b": [0, 8]}
    assert parse(text, KNOWN, everything=USABLE, previous={5}, select=places.__getitem__) == members


@pytest.mark.parametrize(
    "text, message",
    [
        ("same", "were named before, and none were"),
        ("!all", "'!all' is an empty set of nodes"),
        ("al", "neither numbers, nor all, nor same"),
        ("!", "'!' is an empty set"),
        ("!!1", "is neither a number"),
        ("+!1", "is neither a number"),
        ("0-all", "is neither a number"),
        ("010", "'010' in '010' is neither a number"),
        ("cuda:0", "neither numbers, nor all"),
    ],
)
def test_words_that_mean_nothing_here_say_why(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text, KNOWN)


def test_counting_past_the_usable_names_them():
    with pytest.raises(PlacementError, match=r"node \+4, counted from \+0, and 4 may be used: 1-2,6,8"):
        parse("+0-4", KNOWN, everything=USABLE)
    for words in ("all", "!1", "+0"):
        with pytest.raises(ValueError, match="need a machine"):
            parse(words)


@pytest.mark.parametrize("text, plain", [("0,2-5", True), (" 1", True), ("all", False), ("!1", False)])
def test_plain_text_needs_no_machine(text, plain):
    assert is_plain(text) == plain


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
    "text",
    [
        "x",
        "1,,2",
        ",",
        "-1",
        "1-",
        "5-2",
        "1_0",
        "+1",
        "0x1",
        "1.5",
        "\u0663",
        "0-99999999",
        "65536",
        "01",
        "00",
    ],
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
    with pytest.raises(PlacementError, match=r"node 7 does not exist"):
        parse("!7", {0, 1, 2, 8})
    assert parse("0-8", {0, 1, 2, 8}) == {0, 1, 2, 8}
    with pytest.raises(ValueError, match="need a machine"):
        parse("all")
