"""Pages that are allocated before they are populated, and huge ones that threads gather, obey the policy."""

import pytest

from zerosys import Bind, Interleave, Preferred, SharedRegion, filling

SIZE = 32 << 20


@pytest.fixture(autouse=True)
def as_on_many_cpus(monkeypatch):
    monkeypatch.setattr(filling, "_WORTH_ALLOCATING", 1 << 20)
    monkeypatch.setattr(filling, "_ALLOCATE_FROM", 1)
    monkeypatch.setattr(filling, "_threads", lambda size, cpus: 4)


@pytest.mark.parametrize("pages", ["base", "thp"])
@pytest.mark.parametrize("policy", [Bind(0), Bind(1), Preferred(1)], ids=repr)
def test_every_page_lies_where_the_policy_says(policy, pages):
    with SharedRegion.create(SIZE, pages=pages, policy=policy) as region:
        assert region.verify().ok
        assert set(region.placement().nodes) == set(policy.nodes)
        assert not region.array("u8").any()


@pytest.mark.parametrize("pages", ["base", "thp"])
def test_pages_are_interleaved(pages):
    with SharedRegion.create(SIZE, pages=pages, policy=Interleave({0, 1})) as region:
        assert region.placement().nodes == {0: 4096, 1: 4096}


def test_a_node_that_is_full_is_told_before_a_byte_is_handed_out():
    with pytest.raises(OSError, match="node 1"):
        SharedRegion.create("2GiB", pages="base", node=1)
