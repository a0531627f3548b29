"""Thousands of texts read by libnuma and by us; what differs has a name, and the name stands in the docs."""

import os
from pathlib import Path

import grammar
import libnuma
import pytest
from grammar import Machine, difference

from zerosys import _numa, topology

DOCS = Path(__file__).parent.parent / "docs/numa.md"
#: Those that any machine shows; the others take several nodes (tests/guest/odd).
EVERYWHERE = {None, "the empty set", "other bases", "signs", "blanks", "all before the end"}


def test_nodes_are_read_as_libnuma_reads_them_but_for_named_differences():
    machine = topology()
    usable = Machine(frozenset(machine.nodes), machine.all_nodes, _numa.mems_allowed())
    found = grammar.compared(6000, lambda text: libnuma.nodes(text, allowed_only=True), usable)
    assert found.get("", []) == []
    assert EVERYWHERE <= found.keys() and len(found[None]) > 3000


def test_cpus_are_read_as_libnuma_reads_them_but_for_named_differences():
    machine = topology()
    usable = Machine(machine.online_cpus, machine.allowed_cpus, os.sched_getaffinity(0))
    found = grammar.compared(6000, lambda text: libnuma.cpus(text, allowed_only=True), usable)
    assert found.get("", []) == []
    assert EVERYWHERE <= found.keys()


def test_every_difference_stands_in_the_docs():
    text = DOCS.read_text()
    names = [*grammar._BY_TEXT, "the empty set", "backwards", "too large", "the rest of what"]
    names += ["known but not usable", "what is usable"]
    assert [name for name in names if f"**{name}**" not in text] == []


@pytest.mark.parametrize(
    "text, mine, theirs", [("0-1", {0}, {0, 1}), ("1", None, {1}), ("+0", {1}, {0}), ("0", {0}, None)]
)
def test_a_real_difference_would_have_no_name(text, mine, theirs):
    """The judge itself: it does not excuse whatever comes."""
    machine = Machine(frozenset({0, 1}), frozenset({0, 1}), frozenset({0, 1}))
    answers = [None if answer is None else frozenset(answer) for answer in (mine, theirs)]
    assert difference(text, *answers, machine) == ""
