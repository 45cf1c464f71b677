"""Benchmarks of the judge on this machine's CPU: repeatability, overhead, rounds and exactness.

    python benchmarks/judge.py [--repeats 10] [--output benchmarks/results/judge-cpu.json]

1. Repeatability: the variation of the speedup over verdicts on the same submission.
2. Overhead: seconds of a verdict that are neither compilation nor timed windows.
3. Rounds: seconds of verdicts on the public cases, each on a new source, in one process with a warm
   fork server, as an agent's kernels are judged one after the other.
4. Clock: microseconds per launch by the judge, from outside the process, beside those of a loop
   over a ring of the same size inside a process of its own.

Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # read when torch is imported

import torch

from benchmarks.shared import (
    ROOT,
    bind,
    case_of,
    now,
    run_json,
    session,
    variation,
    write_json,
)
from evaluation.bench.devices import detect
from evaluation.bench.memory.ring import BufferRing, ring_slots
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.plan import FINAL_PLAN
from evaluation.code.cache_folder import default_cache
from evaluation.code.languages import languages
from evaluation.device_kind import candidate_cores
from evaluation.judge.request import Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.builds import Build, build
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.sandboxed.kernels import loader
from evaluation.tasks.loaded_code import run_here
from evaluation.tasks.spec import Task
from evaluation.types import Report, Split, Verdict, to_json

OPERATOR, TRACK = "rms_norm", "cpp-to-cpp"
ROUNDS_OF = (("rms_norm", "cpp-to-cpp"), ("rms_norm", "torch-to-cpp"), ("softmax", "torch-to-cpp"))
"""Tasks whose rounds are timed; the baseline in C++ is judged."""
INNER_WINDOWS, INNER_WINDOW_SECONDS = 41, 0.010


def main() -> None:
    """Measure all four, and write the file of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/judge-cpu.json")
    parser.add_argument("--inner", help=argparse.SUPPRESS)
    options = parser.parse_args()
    task = load_task(ROOT / "tasks", OPERATOR, TRACK)
    if options.inner:
        print(json.dumps(time_inside(task, **json.loads(options.inner))))
        return
    honest = next(e for e in task.operator.honest() if e.language == task.track.target)
    files = {task.target_file: honest.source}
    reports = repeat(task, files, options.cache, options.repeats)
    results = {
        "command": f"python benchmarks/judge.py --repeats {options.repeats}",
        "at": now(),
        "task": task.slug,
        "submission": f"honest/{honest.name}",
        "fingerprint": to_json(reports[0].fingerprint),
        "load_average": os.getloadavg(),
        "repeatability": repeatability(reports),
        "overhead": overhead(reports),
        "rounds": rounds(options.cache, options.repeats),
        "clock": compare_clocks(task, files, options.cache),
    }
    write_json(options.output, results)
    shown = ("repeatability", "overhead", "rounds", "clock")
    print(json.dumps({name: results[name] for name in shown}, indent=2))


def repeat(task: Task, files: dict[str, str], cache: Path, repeats: int) -> list[Report]:
    """Return final verdicts on one submission, one after the other, after a build."""
    request = Request(task, files, cache)
    kernel_judge.evaluate(Request(task, files, cache, stage="build"))
    reports = []
    for number in range(repeats):
        report = kernel_judge.evaluate(request)
        assert report.verdict is Verdict.PASSED, report.message
        print(f"{number + 1}/{repeats}: {report.seen}, {report.seconds['total']:.1f} s", flush=True)
        reports.append(report)
    return reports


def repeatability(reports: list[Any]) -> dict[str, Any]:
    """Return coefficients of variation of the task's speedup and of each case's."""
    seen = [report.seen.speedup for report in reports]
    cases: dict[str, list[float]] = {}
    for report in reports:
        for gate in report.gates:
            for m in gate.measurements:
                if m.split == Split.SEEN:
                    cases.setdefault(m.case, []).append(m.speedup)
    mean = statistics.fmean(seen)
    return {
        "repeats": len(reports),
        "speedup": mean,
        "speedup_cv": variation(seen),
        "unseen_speedup_cv": variation([report.unseen.speedup for report in reports]),
        "interval_covers_mean": sum(r.seen.low <= mean <= r.seen.high for r in reports),
        "case_cv": {name: variation(values) for name, values in cases.items()},
    }


def overhead(reports: list[Report]) -> dict[str, float]:
    """Return median seconds of the parts of a warm verdict."""
    seconds = {
        name: statistics.median(r.seconds[name] for r in reports) for name in reports[0].seconds
    }
    seconds["overhead"] = statistics.median(
        r.seconds["total"] - r.seconds["compile"] - r.seconds["clocked"] for r in reports
    )
    return seconds


def rounds(cache: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Return the median, least and most seconds of a round of each task, build included.

    The first verdict of a task is left out: it measures the baselines, whose times are kept.
    """
    found = {}
    with ForkServer() as fork_server:
        fork_server.prepare("torch")
        for operator, track in ROUNDS_OF:
            task = load_task(ROOT / "tasks", operator, track)
            source = task.operator.baseline(task.track.target)
            seconds = []
            for number in range(repeats + 1):
                files = {task.target_file: f"{source}\n// {now()} {number}\n"}
                request = Request(task, files, cache, scope="round")
                report = kernel_judge.evaluate(request, fork_server=fork_server)
                assert report.verdict is Verdict.PASSED, report.message
                seconds.append(report.seconds["total"])
            found[task.slug] = {
                "median": statistics.median(seconds[1:]),
                "least": min(seconds[1:]),
                "most": max(seconds[1:]),
            }
            print(task.slug, found[task.slug], flush=True)
    return found


def compare_clocks(task: Task, files: dict[str, str], cache: Path) -> list[dict[str, Any]]:
    """Time each seen case by the judge and by a loop inside a process of its own."""
    candidate = build(task, task.track.target, files, cache)
    device = detect.device_for("cpu", cache)
    rows = []
    with ForkServer() as fork_server, session(task, candidate, fork_server, cache, device) as judge:
        for case in task.cases(Split.SEEN):
            outside = judge.measure(case, FINAL_PLAN)
            inside = time_in_process(candidate, case.name, device.last_level_cache_bytes)
            rows.append(
                {
                    "case": case.name,
                    "judge_us": outside.candidate_us,
                    "inside_us": inside["median_us"],
                    "deviation": outside.candidate_us / inside["median_us"] - 1,
                    "inside_cv": inside["cv"],
                }
            )
    return rows


def time_in_process(candidate: Build, case: str, cache_bytes: int) -> dict[str, float]:
    """Time one case in a new process that holds the kernel, its memory and the clock."""
    request = {"folder": str(candidate.folder), "name": case, "cache_bytes": cache_bytes}
    times: dict[str, float] = run_json([sys.executable, __file__, "--inner", json.dumps(request)])
    return times


def time_inside(task: Task, folder: str, name: str, cache_bytes: int) -> dict[str, float]:
    """Time windows over a ring as large as the judge's, in this process."""
    os.sched_setaffinity(0, candidate_cores())
    run_here()  # this process judges nothing
    torch.set_num_threads(1)
    operator, case = task.operator, case_of(task, name)
    kernel = loader(languages()[task.track.target].loader).load(Path(folder), operator.name)
    workload = OperatorWorkload(operator, case)
    slots = ring_slots(workload, 2 * cache_bytes)
    with BufferRing(workload, slots) as ring:
        launch = bind(kernel, operator.arguments, ring)
        started = time.perf_counter()
        launch(0, slots)
        each = (time.perf_counter() - started) / slots
        count = max(1, min(slots, round(INNER_WINDOW_SECONDS / each)))
        times = []
        for window in range(INNER_WINDOWS):
            first = window * count % slots
            ring.refill(first, count)
            started = time.perf_counter()
            launch(first, count)
            times.append((time.perf_counter() - started) / count * 1e6)
    return {"median_us": statistics.median(times), "cv": variation(times)}


if __name__ == "__main__":
    main()
