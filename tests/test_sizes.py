"""Sizes as people write them, exact or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosys.sizes import LARGEST, parse_size, show_size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1GiB", 1 << 30), ("64MiB", 64 << 20), ("64M", 64 << 20), ("64m", 64 << 20), ("1.5 KiB", 1536),
        ("4096", 4096), ("7B", 7), ("2 GB", 2_000_000_000), ("3kB", 3000), ("1Ti", 1 << 40), (" 5 ", 5),
        (4096, 4096), (LARGEST, LARGEST),
    ],
)  # fmt: skip
def test_what_people_write_is_read(text, count):
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GiB",
        "-1",
        "1.3",
        "0",
        0,
        -1,
        LARGEST + 1,
        2**63,
        "1e9",
        "1 PiB",
        "0x10",
        "1,5GiB",
        "1.0001KiB",
        "٣",
    ],
)
def test_what_is_no_whole_size_is_named(text):
    with pytest.raises(ValueError, match="size must be"):
        parse_size(text)


@pytest.mark.parametrize("value", [1.5, None, b"1"])
def test_other_types_are_refused(value):
    with pytest.raises(TypeError):
        parse_size(value)


@given(st.integers(1, LARGEST))
def test_what_is_shown_is_read_back(count):
    assert parse_size(show_size(count).removesuffix("ytes").replace(" b", "")) == count
