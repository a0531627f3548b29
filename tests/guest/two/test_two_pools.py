"""Reserving huge pages on one node and not the other, and asking for more than there is."""

import errno

import pytest

from zerosys import SharedRegion, hugepages, topology

MIB = 1 << 20


def totals():
    return {node: sizes[2 * MIB].total for node, sizes in hugepages.pools().items()}


def test_only_the_named_node_gets_pages_and_gives_them_back():
    before = totals()
    assert hugepages.reserve(3, 1).total == before[1] + 3
    assert totals() == {**before, 1: before[1] + 3}
    assert topology().nodes[1].huge_pages[2 * MIB][0] == before[1] + 3
    assert hugepages.give_back(3, 1).total == before[1]
    assert totals() == before


def test_a_short_grant_is_an_error_with_both_numbers_and_leaves_the_pool_as_it_was():
    before = totals()
    with pytest.raises(
        OSError, match=r"10000 pages asked of the pool of 2 MiB pages of node 1, [0-9]+ granted"
    ) as no:
        hugepages.reserve(10000, 1)
    assert no.value.errno == errno.ENOMEM and "compact_memory" in str(no.value)
    assert totals() == before


def test_a_short_grant_is_kept_where_that_is_asked():
    before = hugepages.pool(0)
    try:
        some = hugepages.reserve(10000, 0, strict=False)
        assert before.total < some.total < before.total + 10000
    finally:
        after = hugepages.give_back(hugepages.pool(0).lasting - before.lasting, 0)
    assert after.total == before.total


def test_pages_in_use_become_surplus_and_go_when_they_are_freed():
    before = hugepages.pool(1)
    with SharedRegion.create(4 * MIB, node=1, pages="2M"):
        within = hugepages.give_back(before.lasting, 1)
        assert (within.total, within.surplus, within.lasting) == (2, 2, 0)
    assert hugepages.pool(1).total == 0
    assert hugepages.reserve(before.lasting, 1) == before
