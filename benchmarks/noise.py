"""Benchmark of the judge against itself: the unchanged baseline as a submission, idle and busy.

    python benchmarks/noise.py [--repeats 20] [--busy 0 1 2] [--kind cpu] [--output FILE]

Every verdict is a final one, on four tasks of different sizes in turn. A measurement that is right
reads 1: the share of the intervals that hold 1 is to be 19 of 20, the mean within 1 % of it. Beside
other work a verdict may be inconclusive, and must say so; no point below 0.9 or above 1.1 may be
shown without the mark of a noisy measurement. `--busy` lists the numbers of endless loops beside
the judge, each number a set of its own. `--honest` judges the honest kernels of the GPU suite too,
and counts those that are marked noisy.

Run it on a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # read when torch is imported

from benchmarks.shared import ROOT, now, write_json
from evaluation import pipeline
from evaluation.building.cache_folder import default_cache
from evaluation.tracks.load import load_task
from evaluation.types import Interval, Report, Verdict, to_json

OPERATORS = ("rms_norm", "softmax", "matmul", "swiglu")
TRACKS = {"cpu": "cpp-to-cpp", "gpu": "cuda-to-cuda"}
FAR = (0.9, 1.1)
"""Beyond these a point is a claim of its own, which needs the mark of a noisy measurement."""


def main() -> None:
    """Measure each set, and write the file of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20, help="verdicts of each set")
    parser.add_argument("--busy", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--kind", choices=TRACKS, default="cpu")
    parser.add_argument("--operators", nargs="*", default=OPERATORS)
    parser.add_argument("--honest", action="store_true", help="on a GPU: other kernels too")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    output = options.output or ROOT / f"benchmarks/results/noise-{options.kind}.json"
    ends = time.monotonic() + options.within
    results: dict[str, Any] = {"command": f"python {' '.join(sys.argv)}", "at": now(), "sets": {}}
    for loops in options.busy:
        reports = []
        with busy(loops):
            for number in range(options.repeats):
                if time.monotonic() > ends:
                    break
                operator = options.operators[number % len(options.operators)]
                report = judge_baseline(operator, TRACKS[options.kind], options.cache)
                reports.append(report)
                print(loops, number + 1, operator, line_of(report), flush=True)
        if reports:
            results["fingerprint"] = to_json(reports[0].fingerprint)
            results["sets"][f"{loops} busy loops"] = summary(reports)
            write_json(output, results)
    if options.honest:
        reports = judge_honest(options.cache, ends)
        results["sets"]["honest kernels"] = summary(reports)
        results["fingerprint"] = to_json(reports[0].fingerprint)
        write_json(output, results)
    for name, found in results["sets"].items():
        print(name, {key: value for key, value in found.items() if key != "verdicts"})


def judge_baseline(operator: str, track: str, cache: Path) -> Report:
    """Return the final verdict on an operator's unchanged baseline."""
    task = load_task(ROOT / "tasks", operator, track)
    files = {task.target_file: task.operator.baseline(task.track.target)}
    return pipeline.evaluate(pipeline.Request(task, files, cache))


def judge_honest(cache: Path, ends: float) -> list[Report]:
    """Return the final verdicts on the honest kernels of the GPU suite, until the time is over."""
    from tests.gpu.submissions import build_all, submissions

    works = submissions("honest")
    build_all(works, cache)
    reports = []
    for work in works:
        if time.monotonic() > ends:
            break
        reports.append(
            dataclasses.replace(work, header={**work.header, "scope": "final"}).judge(cache)
        )
        print(work.name, line_of(reports[-1]), flush=True)
    return reports


def line_of(report: Report) -> str:
    """Return a verdict in one line."""
    if report.verdict is not Verdict.PASSED:
        return f"{report.verdict}: {report.message}"
    spans = " ".join(f"{i.speedup:.3f} [{i.low:.3f}, {i.high:.3f}]" for i in intervals(report))
    return f"{spans}{' noisy' if report.noisy else ''} {report.seconds['total']:.1f} s"


def intervals(report: Report) -> list[Interval]:
    return [interval for interval in (report.seen, report.unseen) if interval]


def summary(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the counts and means of a set of verdicts, and each verdict's figures."""
    passed = [report for report in reports if report.verdict is Verdict.PASSED]
    held = [all(i.low <= 1 <= i.high for i in intervals(report)) for report in passed]
    cases = [m for r in passed for g in r.gates for m in g.measurements]
    far = [
        report
        for report in passed
        if not report.noisy and any(not FAR[0] <= i.speedup <= FAR[1] for i in intervals(report))
    ]
    found: dict[str, Any] = {
        "verdicts_of_set": len(reports),
        "inconclusive": sum(r.verdict is Verdict.INCONCLUSIVE for r in reports),
        "other": sum(r.verdict not in (Verdict.PASSED, Verdict.INCONCLUSIVE) for r in reports),
        "noisy": sum(report.noisy for report in passed),
        "hold_1_or_inconclusive": len(reports) - held.count(False),
        "far_without_mark": len(far),
        "cases": len(cases),
        "cases_that_hold_1": sum(m.low <= 1 <= m.high for m in cases),
        "noisy_cases": sum(m.noisy for m in cases),
        "median_seconds": statistics.median(report.seconds["total"] for report in reports),
        "most_seconds": max(report.seconds["total"] for report in reports),
    }
    for name, values in (
        ("seen", [report.seen.speedup for report in passed if report.seen]),
        ("unseen", [report.unseen.speedup for report in passed if report.unseen]),
        ("case", [m.speedup for m in cases]),
    ):
        if values:
            found[f"mean_{name}"] = statistics.geometric_mean(values)
    return {**found, "verdicts": [figures(report) for report in reports]}


def figures(report: Report) -> dict[str, Any]:
    return {
        "task": report.task,
        "verdict": report.verdict.value,
        "message": report.message,
        "seen": to_json(report.seen),
        "unseen": to_json(report.unseen),
        "noisy": report.noisy,
        "seconds": report.seconds["total"],
    }


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Run so many endless loops on any core."""
    processes = [multiprocessing.Process(target=spin, daemon=True) for _ in range(loops)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
