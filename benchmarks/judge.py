"""How well the judge measures on this machine: repeatability, overhead, and its clock against an
inner one.

    python benchmarks/judge.py [--repeats 10] [--output benchmarks/results/judge-cpu.json]

1. Repeatability: the same submission judged again and again; the coefficient of variation of its
speedup. 2. Overhead: seconds of a verdict that are neither compilation nor windows on the clock. 3.
The clock: microseconds per launch as the judge measures them from outside the process, beside a
loop that times
   the same launches over as large a ring from inside a process of its own.

Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["GOMP_SPINCOUNT"] = "0"

from evaluation import pipeline  # noqa: E402 - the path and the environment come first
from evaluation.building.cache_folder import default_cache  # noqa: E402
from evaluation.devices import detect  # noqa: E402 - the path and the environment come first
from evaluation.tasks.spec import Task  # noqa: E402
from evaluation.timing import estimates  # noqa: E402 - the path and the environment come first
from evaluation.tracks.builds import Build, baselines, build  # noqa: E402
from evaluation.tracks.load import load_task  # noqa: E402
from evaluation.types import Split, to_json  # noqa: E402

OPERATOR, TRACK, ANSWER = "rms_norm", "cpp-to-cpp", "honest"
INNER_WINDOWS = 41


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/judge-cpu.json")
    parser.add_argument("--inner", help=argparse.SUPPRESS)
    options = parser.parse_args()
    task = load_task(ROOT / "tasks", OPERATOR, TRACK)
    if options.inner:
        print(json.dumps(inner_times(task, json.loads(options.inner))))
        return
    answer = next(e for e in task.operator.honest() if e.language == task.track.target)
    files = {task.target_file: answer.source}
    reports = repeat(task, files, options.cache, options.repeats)
    results = {
        "command": f"python benchmarks/judge.py --repeats {options.repeats}",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": task.slug,
        "submission": f"honest/{answer.name}",
        "fingerprint": to_json(reports[0].fingerprint),
        "load_average": os.getloadavg(),
        "repeatability": repeatability(reports),
        "overhead": overhead(reports),
        "clock": clocks(task, files, options.cache),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps({k: results[k] for k in ("repeatability", "overhead", "clock")}, indent=2))


def repeat(task: Task, files: dict[str, str], cache: Path, repeats: int) -> list[Any]:
    """Whole verdicts of one submission, one after the other, the first build thrown away."""
    request = pipeline.Request(task, files, cache)
    pipeline.evaluate(pipeline.Request(task, files, cache, stage="build"))
    reports = []
    for number in range(repeats):
        report = pipeline.evaluate(request)
        assert report.verdict == "passed", report.message
        print(f"{number + 1}/{repeats}: {report.seen}, {report.seconds['total']:.1f} s", flush=True)
        reports.append(report)
    return reports


def repeatability(reports: list[Any]) -> dict[str, Any]:
    """Coefficients of variation of the task's speedup and of each case's."""
    seen = [report.seen.speedup for report in reports]
    cases: dict[str, list[float]] = {}
    for report in reports:
        for gate in report.gates:
            for m in gate.measurements:
                if m.split == Split.SEEN:
                    cases.setdefault(m.case, []).append(m.speedup)
    return {
        "repeats": len(reports),
        "speedup": statistics.fmean(seen),
        "speedup_cv": variation(seen),
        "unseen_speedup_cv": variation([report.unseen.speedup for report in reports]),
        "interval_covers_mean": sum(
            r.seen.low <= statistics.fmean(seen) <= r.seen.high for r in reports
        ),
        "case_cv": {name: variation(values) for name, values in cases.items()},
    }


def variation(values: list[float]) -> float:
    """Standard deviation over mean."""
    return statistics.stdev(values) / statistics.fmean(values)


def overhead(reports: list[Any]) -> dict[str, float]:
    """Medians of what a warm verdict spends, in seconds."""
    spent = {
        name: statistics.median(r.seconds[name] for r in reports) for name in reports[0].seconds
    }
    spent["overhead"] = statistics.median(
        r.seconds["total"] - r.seconds["compile"] - r.seconds["clocked"] for r in reports
    )
    return spent


def clocks(task: Task, files: dict[str, str], cache: Path) -> list[dict[str, Any]]:
    """The judge's time of the baseline's cases beside a loop inside a process of its own."""
    from evaluation.process.fork_server import ForkServer
    from evaluation.session import MeasurementSession

    made = build(task, task.track.target, files, cache)
    device = detect.device_for("cpu", cache)
    rows = []
    with (
        ForkServer() as fork_server,
        MeasurementSession(task, fork_server, baselines(task, cache), cache).meet(
            made, device
        ) as judge,
    ):
        for case in task.cases(Split.SEEN):
            outside = judge.measure(case, estimates.FINAL_PLAN)
            inside = inner(made, case.name, device.last_level_cache_bytes)
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


def inner(made: Build, case: str, cache_bytes: int) -> dict[str, float]:
    """Time one case in a fresh process that holds the kernel, its memory and the clock."""
    request = json.dumps({"folder": str(made.folder), "case": case, "cache_bytes": cache_bytes})
    argv = [sys.executable, __file__, "--inner", request]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def inner_times(task: Task, request: dict[str, Any]) -> dict[str, float]:
    """In the process of its own: windows of about ten milliseconds over a ring as large as the
    judge's.
    """
    import torch

    from evaluation.device_kind import contestant_cores
    from evaluation.languages import languages
    from evaluation.memory.ring import BufferRing, ring_slots

    os.sched_setaffinity(0, contestant_cores())
    torch.set_num_threads(1)
    operator = task.operator
    case = next(c for c in task.cases(Split.SEEN) if c.name == request["case"])
    kernel = languages()[task.track.target].load(Path(request["folder"]), operator.name)
    with BufferRing(
        operator, case, ring_slots(operator, case, 2 * request["cache_bytes"]), 1
    ) as rig:
        slots = [
            {**rig.values, **rig.inputs.slot(i), **rig.outputs[0].slot(i)} for i in range(rig.slots)
        ]
        launch = kernel.bind(operator.arguments, slots)
        rig.refill(0, 0, rig.slots)
        started = time.perf_counter()
        launch(0, rig.slots)
        each = (time.perf_counter() - started) / rig.slots
        count = max(1, min(rig.slots, round(0.010 / each)))
        times = []
        for window in range(INNER_WINDOWS):
            first = window * count % rig.slots
            rig.refill(0, first, count)
            started = time.perf_counter()
            launch(first, count)
            times.append((time.perf_counter() - started) / count * 1e6)
    return {"median_us": statistics.median(times), "cv": variation(times)}


if __name__ == "__main__":
    main()
