"""Run the contract tests on this machine's GPU and measure every bar, in one go.

    python3 benchmarks/cuda/run_all.py --out FOLDER [--quick] [--only NAME ...]

Writes FOLDER/cuda.json, cuda.md and tests.txt. Needs a GPU, cuda-bindings, torch and CuPy; says what is
missing and ends with 3 where there is no device. Ends with 1 if a test failed or an answer was wrong; a
missed bar is told and is no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.common import run_rounds  # noqa: E402
from benchmarks.machine import Quiet, machine  # noqa: E402
from zerosys import cuda  # noqa: E402

# Each question: the module beside this one and what builds it.
QUESTIONS = {
    "transfers": ("transfers", "build"),
    "calls": ("calls", "build"),
    "map_or_copy": ("map_or_copy", "build"),
    "registering": ("making", "build_registering"),
    "threads": ("making", "build_threads"),
    "making": ("making", "build"),
    "storage": ("storage", "build"),
    "slots": ("pipeline", "build_slots"),
    "ring": ("pipeline", "build"),
    "overlap": ("pipeline", "build_overlap"),
    "iq": ("pipeline", "build_iq"),
    "loader": ("pipeline", "build_loader"),
}
NO_DEVICE = 3


def contract_tests(out: Path) -> dict[str, Any]:
    """Run them in a process of their own; the closing line, and where the rest is."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "ignore",
        "-p",
        "no:cacheprovider",
        "-o",
        "timeout=0",
    ]
    command += ["-c", "pyproject.toml", "tests/cuda_contract"]
    environment = os.environ | {"ZEROSYS_REQUIRE": "gpu", "PYTHONPATH": str(ROOT)}
    begin = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    (out / "tests.txt").write_text(done.stdout + done.stderr)
    closing = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    print(f"contract tests: {closing}")
    return {"exit": done.returncode, "closing": closing, "seconds": round(time.monotonic() - begin, 1)}


def warm_memory(size: int) -> None:
    """Have the machine own *size* bytes: a virtual one may get its memory only when it is first used."""
    from zerosys import SharedRegion

    with SharedRegion.create(size, pages="base"):
        pass


def facts() -> dict[str, str]:
    """The machine, its device, and the versions of what was compared with."""
    import cupy
    import torch

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    found = machine()
    found["gpu"] = properties["name"].decode()
    found["driver"] = str(cupy.cuda.runtime.driverGetVersion())
    found["torch"] = torch.__version__
    for name in ("cuda-bindings", "cupy-cuda13x", "numba-cuda", "jax"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def answer(name: str, quick: bool, rounds: int) -> dict[str, Any]:
    """Measure one question: its rows and bars, ready for JSON."""
    module, function = QUESTIONS[name]
    question = getattr(import_module(f"benchmarks.cuda.{module}"), function)(quick)
    quiet = Quiet(0)
    try:
        run_rounds(question.rows, 1 if quick else rounds, 1 if quick else question.slices, quiet)
    finally:
        question.close()
    table = {row.name: row for row in question.rows}
    told = {
        "asks": question.asks,
        "unit": question.unit,
        "rows": [
            {"name": row.name, "median": row.median(), "min": min(row.figures), "max": max(row.figures)}
            for row in question.rows
        ],
        "bars": [
            {"row": bar.row, "bar": str(bar), "of_the_bar": bar.margin(table), "verdict": bar.verdict(table)}
            for bar in question.bars
        ],
    }
    for bar in told["bars"]:
        print(
            f"  {bar['verdict']:<6} {bar['row']} {bar['bar']}: {bar['of_the_bar']:.3f} of the bar", flush=True
        )
    for row in told["rows"]:
        print(f"         {row['name']:<40} {row['median']:.5g} {question.unit}", flush=True)
    return told


HEAD = """# zerosys.cuda on a GPU

Written by `benchmarks/cuda/run_all.py`. All figures are times; a bar is met within 5 %, and its figure is the
median of the rounds' ratios to it.
"""


def page(outcome: dict[str, Any]) -> str:
    """The outcome as Markdown."""
    lines = [HEAD, "; ".join(f"{key}: {value}" for key, value in outcome["machine"].items()), ""]
    lines += [f"Contract tests: {outcome['tests']['closing']}", ""]
    if outcome["same"]:
        lines += [f"Mapped, staged and pooled give the plain way's hash: {outcome['same']['plain']}", ""]
    for name, told in outcome["questions"].items():
        lines += [f"## {name}: {told['asks']}", ""]
        if told["bars"]:
            bars = [(b["row"], b["bar"], f"{b['of_the_bar']:.4g}", b["verdict"]) for b in told["bars"]]
            lines += [*table(("row", "bar", "of the bar", ""), bars), ""]
        rows = [(r["name"], f"{r['median']:.5g}", f"{r['min']:.5g} .. {r['max']:.5g}") for r in told["rows"]]
        lines += [*table(("row", f"median, {told['unit']}", "min .. max"), rows), ""]
    return "\n".join(lines)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Test and measure zerosys.cuda on this machine's GPU.")
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder for cuda.json, cuda.md and tests.txt"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: do the answers hold?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=[*QUESTIONS, "tests", "same"], help="these parts alone")
    options = parser.parse_args()
    model = cuda.memory_model()
    if not model:
        print(f"no device: {model.reason}", file=sys.stderr)
        return NO_DEVICE
    parts = options.only or [*QUESTIONS, "tests", "same"]
    options.out.mkdir(parents=True, exist_ok=True)
    outcome: dict[str, Any] = {"machine": facts(), "tests": {"exit": 0, "closing": "not run"}, "same": {}}
    outcome["questions"] = {}
    wrong = []
    if "tests" in parts:
        outcome["tests"] = contract_tests(options.out)
    import torch

    torch.zeros(1, device="cuda")  # a context, current on this thread
    if not options.quick:
        warm_memory(16 << 30)
    for name in [part for part in (*QUESTIONS, "same") if part in parts]:
        print(f"{name}:", flush=True)
        try:
            if name == "same":
                from benchmarks.cuda.sameness import same_bytes

                outcome["same"] = same_bytes(options.quick)
            else:
                outcome["questions"][name] = answer(name, options.quick, options.rounds)
        except Exception as error:  # one broken question is told, and the others are answered
            import traceback

            traceback.print_exc()
            wrong.append(f"{name}: {error!r}")
        (options.out / "cuda.json").write_text(json.dumps(outcome | {"wrong": wrong}, indent=1))
        (options.out / "cuda.md").write_text(page(outcome))
    print("\n".join(wrong) or "every answer was right")
    return 1 if wrong or outcome["tests"]["exit"] else 0


if __name__ == "__main__":
    sys.exit(main())
