"""Each benchmark runs on tiny sizes with its answers checked; no test looks at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import memory_cost
from benchmarks.common import Bar, Row, c_library, questions, run_rounds
from benchmarks.loops import c_loop, python_loop
from benchmarks.machine import Quiet
from benchmarks.outcome import page

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("question", questions())
def test_each_question_is_answered_on_tiny_sizes(question):
    kept = {path: path.stat().st_mtime_ns for path in (ROOT / "benchmarks/results").glob("*")}
    run = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{question}", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{question}:" in run.stdout
    assert "of the bar" in run.stdout
    assert kept == {path: path.stat().st_mtime_ns for path in (ROOT / "benchmarks/results").glob("*")}


def test_the_kept_figures_become_a_page_with_every_bar(tmp_path):
    kept = tmp_path / "memory_cost.csv"
    subprocess.run(
        [sys.executable, "-m", "benchmarks.memory_cost", "--quick", "--csv", kept],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=120,
    )
    text = page(tmp_path)
    assert "## memory_cost" in text
    assert "kernel: " in text
    assert text.count("| met |") + text.count("| missed |") == len(memory_cost.CALLS_OF)


def test_every_question_is_in_the_readme():
    text = (ROOT / "benchmarks/README.md").read_text()
    assert [question for question in questions() if f"`{question}`" not in text] == []


def test_a_wrong_answer_stops_the_python_loop():
    with pytest.raises(AssertionError, match="gave 2, not 3"):
        python_loop("one + one", 3, {"one": 1})


def test_a_wrong_answer_stops_the_c_loop():
    class Things:
        closed = -1

    call = c_loop(c_library("wrapper_cost"), "pipe_capacity closed", Things)
    with pytest.raises(AssertionError, match="wrong answer"):
        call(1)


def rows_of(mine, theirs):
    return {"mine": Row("mine", None, mine), "theirs": Row("theirs", None, theirs)}


@pytest.mark.parametrize(("mine", "verdict"), [(104, "met"), (106, "missed")])
def test_a_bar_is_met_within_five_percent(mine, verdict):
    assert Bar("mine", "theirs").verdict(rows_of([mine], [100])) == verdict


@pytest.mark.parametrize(("mine", "verdict"), [(115, "met"), (113, "missed")])
def test_a_bar_from_below_is_met_within_five_percent(mine, verdict):
    assert Bar("mine", "theirs", 1.2, at_least=True).verdict(rows_of([mine], [100])) == verdict


def test_a_bar_compares_within_each_round():
    # Both slow down tenfold in the second round, and the ratio stays.
    assert Bar("mine", "theirs", 0.5).margin(rows_of([1, 10, 1], [2, 20, 2])) == 1


def test_rounds_go_over_all_rows_and_keep_the_best_of_the_slices():
    order = []
    figures = iter([3, 30, 1, 10, 2, 20])
    rows = [Row(name, lambda name=name: order.append(name) or next(figures)) for name in "ab"]
    run_rounds(rows, rounds=1, slices=3, quiet=Quiet(0))
    assert order == ["a", "b"] * 3
    assert [row.figures for row in rows] == [[1], [10]]


def test_the_gate_counts_the_cpu_of_others_and_not_ours():
    quiet = Quiet(0)
    script = "import sys; print(flush=True); sum(i for i in iter(int, 1) if sys.stdout.closed)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        other.stdout.read(1)
        with quiet.watch():
            before = os.times().user
            while os.times().user - before < 0.3:  # our own work, beside the other's
                pass
        quiet.end_round()
        other.kill()
    # Killed but not yet reaped while the round lasted: it counts as another's.
    assert quiet.taken[0] > 0.1
