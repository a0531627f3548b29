"""The ring's protocol in every order: its own headers, run a step at a time in two memory models.

Nothing breaks, and whatever ordering is taken out, something does. A scenario is gone through with a bound on
preemptions (switches away from a thread that could go on); what a load may see is never bounded.
"""

import re
from pathlib import Path

import pytest
from explorer_build import HEADERS, HERE, explored, explorer, sites

PROTOCOL = ["ring_protocol.h", "ring_wait.h", "ring_message.h"]
PROGRAMS = {
    "ring_living": [
        "pair", "fan-out", "leave", "join-oldest", "join-next", "join-stale", "rejoin", "end",
        "overwrite", "overwrite-join",
    ],
    "ring_dying": ["evict", "takeover", "heir", "handover", "end-by-second", "overwrite-by-second"],
    "ring_messages": ["messages", "join-messages"],
}  # fmt: skip
SCENARIOS = [(program, name) for program, names in PROGRAMS.items() for name in names]
MODELS = {"tso": ("--tso",), "weak": ()}
LARGE = {"fan-out", "takeover", "messages", "rejoin"}  # many sleeps: one preemption fewer


def bound(scenario, preemptions=2, model="weak"):
    fewer = (scenario in LARGE) + (scenario == "fan-out" and model == "tso")
    return "--preemptions", str(preemptions - fewer)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explorer")
    return {program: explorer(program, folder) for program in PROGRAMS}


@pytest.fixture(scope="module")
def orderings(programs):
    """Each ordering of the protocol that is not relaxed, and where it is gone through."""
    where: dict[str, list[tuple[str, str]]] = {}
    for program, name in SCENARIOS:
        for site, order in sites(programs[program], *bound(name, 1), name).items():
            if order != "relaxed" and site.split(":")[0] in PROTOCOL:
                where.setdefault(site, []).append((program, name))
    return where


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_scenario_is_on_the_list(programs, program):
    assert explored(programs[program])[1].split() == PROGRAMS[program]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("program", "name"), SCENARIOS)
def test_nothing_breaks(programs, program, name, model):
    held, text = explored(programs[program], *MODELS[model], *bound(name, model=model), name)
    assert held, text


def written_orderings():
    """Every ordering in the headers' code, as FILE:LINE:SYNC, but what is done for nobody's sake."""
    call = re.compile(r"ZS_RING_\w+\([^;]*?\b(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST), (?!none)(\w+)\)")
    found = set()
    for name in PROTOCOL:
        for number, line in enumerate((HEADERS / name).read_text().splitlines(), 1):
            found |= {f"{name}:{number}:{sync}" for _, sync in call.findall(line) if "#define" not in line}
    return found


def test_every_ordering_that_is_written_is_gone_through(orderings):
    assert len(orderings) >= 15
    assert written_orderings() == set(orderings)


def test_each_ordering_that_is_taken_out_breaks_something(programs, orderings):
    missed = []
    for ordering, where in sorted(orderings.items()):
        small_first = sorted(where, key=lambda place: place[1] in LARGE)
        if all(
            explored(programs[program], "--weaken", ordering, *bound(name), name)[0]
            for program, name in small_first
        ):
            missed.append(ordering)
    assert missed == []


def test_full_fences_that_are_taken_out_break_something_with_store_buffers_alone(programs, orderings):
    """As on x86, where nothing else of the protocol costs an instruction, and where the addition to the
    sleepers is a full fence itself."""
    fences = {site for site in orderings if is_fence(site)}
    implied = {site for site in fences if site.startswith("ring_wait.h") and site.endswith(":wake")}
    assert (len(fences), len(implied)) == (6, 1)
    for fence in fences - implied:
        small = [place for place in orderings[fence] if place[1] not in LARGE]
        assert not all(
            explored(programs[program], "--tso", "--weaken", fence, *bound(name), name)[0]
            for program, name in small
        ), fence


def is_fence(site):
    name, number, _ = site.split(":")
    return "FENCE(SEQ_CST" in (HEADERS / name).read_text().splitlines()[int(number) - 1]


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("program", "name"), SCENARIOS)
def test_nothing_breaks_with_more_preemptions(programs, program, name, model):
    held, text = explored(programs[program], *MODELS[model], *bound(name, 3, model), name, timeout=3000)
    assert held, text


def test_the_scenarios_run_the_headers_that_are_installed():
    steps = (HERE / "ring_steps.h").read_text()
    assert all(f'#include "{name}"' in steps for name in PROTOCOL)
    assert not list(Path(HERE).glob("*protocol*"))
