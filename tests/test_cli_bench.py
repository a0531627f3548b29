"""zerosys bench: short runs with checked answers, saved, compared and drawn."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from needs import need

from zerosys.cli.bench import SUBJECTS, memory, report, setup
from zerosys.cli.bench.measure import Measure, Row, WrongAnswer, check
from zerosys.machine import topology

BENCH = [sys.executable, "-m", "zerosys", "bench"]


def bench(*arguments):
    return subprocess.run([*BENCH, *arguments], capture_output=True, text=True)


def saved(path, value, more=True):
    measure = Measure("speed", "GiB/s", more, (Row("here", value, value, value),))
    path.write_text(report.to_json([measure]))
    return str(path)


def test_each_pair_of_nodes_is_measured():
    reading, writing = memory.measures(1, 1 << 20)
    machine = topology()
    assert len(reading.rows) == len(writing.rows) == len(machine.nodes_with_cpus) * len(machine.allowed_nodes)
    assert all(0 < row.low <= row.value <= row.high for row in reading.rows + writing.rows)


def test_making_regions_is_measured_beside_the_standard_librarys():
    (made,) = setup.measures(2, 1 << 20)
    labels = [row.label for row in made.rows]
    assert "SharedRegion, pages='base'" in labels and labels[-1].startswith("multiprocessing")
    assert not made.more_is_better and all(row.value > 0 for row in made.rows)


def test_a_run_is_saved_as_json_and_read_again(tmp_path):
    done = bench("setup", "--rounds", "1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["schema"] == 1 and {"kernel", "python", "machine", "cpus"} == set(told["machine"])
    file = tmp_path / "run.json"
    file.write_text(done.stdout)
    (read,) = report.load(str(file))
    assert read.to_dict() == told["measures"][0]
    assert "SharedRegion" in report.text([read])


@pytest.mark.parametrize(("more", "better"), [(True, "2.00x"), (False, "0.50x")])
def test_two_runs_are_compared_by_what_is_better(tmp_path, more, better):
    first, second = saved(tmp_path / "a", 2.0, more), saved(tmp_path / "b", 4.0, more)
    done = bench("--compare", first, second)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split() == ["speed:", "here", "GiB/s", "2", "4", better]
    assert report.compare([], report.load(first)) == "the two runs have no row in common"


def test_what_is_no_saved_run_is_told(tmp_path):
    (tmp_path / "x").write_text('{"schema": 1}')
    done = bench("--compare", str(tmp_path / "x"), str(tmp_path / "x"))
    assert done.returncode == 1 and "is no saved run: make one with" in done.stderr
    (tmp_path / "x").write_text('{"schema": 9}')
    done = bench("--compare", str(tmp_path / "x"), str(tmp_path / "x"))
    assert done.returncode == 1 and "schema 9, and this zerosys reads 1" in done.stderr


def test_wrong_usage_is_told():
    for arguments, told in ((["speed"], "'speed' is no subject"), (["--rounds", "0"], "1 or more, not 0")):
        done = bench(*arguments)
        assert done.returncode == 2 and told in done.stderr
    assert all(f"  {subject} " in bench("--help").stdout for subject in SUBJECTS)


def test_a_wrong_answer_has_no_figure():
    with pytest.raises(WrongAnswer, match="reading: the answer is wrong"):
        check(False, "reading")


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_run_is_drawn(tmp_path, ending):
    from zerosys.cli.bench.plots import draw

    picture = tmp_path / f"run.{ending}"
    draw([Measure("speed", "GiB/s", True, (Row("here", 2.0, 1.0, 3.0),))], str(picture))
    assert picture.read_bytes().startswith({"svg": b"<?xml", "png": b"\x89PNG"}[ending])
    with pytest.raises(ValueError):
        draw([Measure("speed", "GiB/s", True, (Row("here", 2.0, 1.0, 3.0),))], str(tmp_path / "run.xyz"))


def test_without_matplotlib_a_picture_is_refused_with_the_remedy(monkeypatch, tmp_path):
    from zerosys.cli.bench.plots import draw

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"pip install 'zerosys\[plot\]'"):
        draw([], str(tmp_path / "run.svg"))


def test_moving_is_measured_beside_copying_and_nothing_was_copied():
    from zerosys.cli.bench import moving

    (measured,) = moving.measures(1, (1 << 16,))
    assert [row.label for row in measured.rows] == ["64 KiB moved by pump()", "64 KiB read and sent"]


def test_a_machine_without_a_gpu_has_no_such_rows():
    from zerosys.cli.bench import gpu
    from zerosys.cuda import memory_model

    assert bool(gpu.measures(1, (1 << 16,))) is bool(memory_model(0))


def test_round_trips_through_rings_are_measured():
    from zerosys.cli.bench import ring

    small, large = ring.measures(1, 200)
    assert small.rows[0].label == "median" and small.rows[0].value <= small.rows[-1].value
    assert large.name == "ring round trip, 4096 bytes"


def test_it_spawns_from_the_script_that_dev_makes():
    """What multiprocessing spawns reads the script again, and must not run it."""
    script = Path(sys.executable).with_name("zerosys")
    need("script", None if script.exists() else "./dev build has made no zerosys beside this Python")
    done = subprocess.run(
        [script, "bench", "ring", "--rounds", "1"], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "ring round trip" in done.stdout
