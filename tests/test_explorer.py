"""The explorer finds what each memory model allows, and nothing else: programs whose outcomes are known."""

import pytest
from explorer_build import explored, explorer, sites

HOLD = ["message-passing", "giving-back", "store-buffering", "futex", "additions", "release-sequence"]
HOLD += ["coherence", "death"]
MODELS = {"tso": ("--tso",), "weak": ()}


@pytest.fixture(scope="module")
def litmus(tmp_path_factory):
    return explorer("litmus", tmp_path_factory.mktemp("explorer"))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("program", HOLD)
def test_what_is_ordered_is_seen_in_order(litmus, program, model):
    held, text = explored(litmus, *MODELS[model], program)
    assert held, text


@pytest.mark.parametrize("model", MODELS)
def test_a_sleeper_whom_nobody_wakes_is_found(litmus, model):
    held, text = explored(litmus, *MODELS[model], "no-wake")
    assert not held
    assert "sleeps, and nobody will wake it" in text


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("message-passing", "the flag was seen before the data"),
        ("giving-back", "a race"),
        ("release-sequence", "a release sequence was broken off"),
        ("store-buffering", "neither saw the other"),
    ],
)
def test_each_ordering_that_is_taken_out_is_found_where_it_matters(litmus, program, found):
    orderings = [name for name, order in sites(litmus, program).items() if order != "relaxed"]
    assert len(orderings) == 2
    for ordering in orderings:
        held, text = explored(litmus, "--weaken", ordering, program)
        assert not held, f"{program} without {ordering}"
        assert found in text


def test_of_the_orderings_only_the_full_fence_matters_to_a_store_buffer(litmus):
    for program, matters in [("message-passing", False), ("giving-back", False), ("store-buffering", True)]:
        for ordering in [name for name, order in sites(litmus, program).items() if order != "relaxed"]:
            held, _ = explored(litmus, "--tso", "--weaken", ordering, program)
            assert held is not matters


def test_the_steps_that_lead_there_are_told(litmus):
    _, text = explored(litmus, "no-wake")
    steps = text.splitlines()[1:]
    assert [step.split()[:2] for step in steps] == [["0", "load"], ["0", "futex"], ["1", "store"]]


def test_a_bound_on_preemptions_leaves_states_out(litmus):
    def states(*words):
        return int(explored(litmus, *words, "coherence")[1].split()[1])

    assert states("--preemptions", "0") < states("--preemptions", "1")
