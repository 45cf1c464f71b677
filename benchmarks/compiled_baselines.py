"""Baselines of tasks from PyTorch: eager, compiled for each shape, and compiled for any shape.

    python benchmarks/compiled_baselines.py [PATTERN ...] [--tasks FOLDER] [--kind gpu|cpu]
                                            [--within SECONDS] [--cache FOLDER] [--output FILE]

The judge compiles for each shape. Times are of its own clock, on the public cases of operators
that match a PATTERN (`layer_norm`), or of the problems of an imported suite with `--tasks`.
Operators in FILE are skipped, so that a run can be continued, and none is started later than
SECONDS after the start.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # read when torch is imported

import torch

from benchmarks.shared import ROOT, provenance, resumable_parser, write_json
from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_host import processes_of
from evaluation.device_kind import CPU, GPU
from evaluation.errors import Broken, TaskError
from evaluation.kinds.kernel.builds import DROPPED, Build, baselines, build
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.kinds.kernel.torch_variants import COMPILED, source
from evaluation.tasks import task_code
from evaluation.tasks.spec import Task, find_operators
from evaluation.types import Split

TRACK = "torch-to-torch"
EAGER, STATIC, ANY_SHAPE = "eager", "compile", "any shape"
SHOWN = 1.05
"""A baseline that is faster by this factor is counted as faster."""


def main() -> None:
    """Time the baselines of each operator, and write the file of results after each."""
    parser = resumable_parser(__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=Path, default=ROOT / "tasks")
    kind = GPU if torch.cuda.is_available() else CPU
    parser.add_argument("--kind", choices=(GPU, CPU), default=kind)
    options = parser.parse_args()
    output = options.output or ROOT / f"benchmarks/results/compiled-baselines-{options.kind}.json"
    found = json.loads(output.read_text())["operators"] if output.is_file() else {}
    ends = time.monotonic() + options.within
    cache = options.cache.absolute()
    device = detect.devices(cache, (options.kind,))[0]
    with ExitStack() as stack:
        fork_server = stack.enter_context(ForkServer())
        stack.enter_context(task_code.hosted(processes_of(lambda: fork_server)))
        for name in find_operators(options.tasks.absolute()):
            if name in found or not any(fnmatchcase(name, each) for each in options.patterns):
                continue
            if time.monotonic() > ends:
                break
            try:
                task = load_task(options.tasks.absolute(), name, TRACK, options.kind)
                found[name] = times_of(task, fork_server, cache, device)
            except (Broken, TaskError) as error:
                found[name] = {"error": str(error)[:300]}
            print(name, json.dumps(found[name]), flush=True)
            head = {"command": "python benchmarks/compiled_baselines.py", **provenance(device)}
            write_json(output, {**head, "summary": summary(found), "operators": found}, indent=1)
    print(summary(found))


def times_of(
    task: Task, fork_server: ForkServer, cache: Path, device: Device
) -> dict[str, dict[str, float]]:
    """Return the microseconds of each baseline on each public case, by their names."""
    builds = baselines(task, cache)
    builds.append(any_shape(task, cache, builds[-1]))
    names = [each.name for each in builds]
    with MeasurementSession(task, fork_server, builds, cache) as session:
        session.set_candidate(builds[0], device)
        cases = [case.name for case in task.cases(Split.SEEN)]
        rows = [dict(zip(names, row, strict=True)) for row in session.trial_times(names)]
    return {
        case: {name: round(value, 3) for name, value in row.items()}
        for case, row in zip(cases, rows, strict=True)
    }


def any_shape(task: Task, cache: Path, like: Build) -> Build:
    """Return the reference compiled for any shape, with the scratch folder of another baseline."""
    ending = COMPILED.replace("dynamic=False", "dynamic=True") + DROPPED
    files = {f"{task.operator.name}.py": source(task.operator, ending)}
    made = build(task, "torch", files, cache, ANY_SHAPE)
    return dataclasses.replace(
        made, trusted=True, discards=True, scratch=like.scratch, environment=like.environment
    )


def summary(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return by how much the faster of eager and compiled is faster with code for each shape."""
    timed = {name: rows for name, rows in found.items() if "error" not in rows}
    ratios = {name: _ratio(rows) for name, rows in timed.items()}
    faster = [ratio for ratio in ratios.values() if ratio >= SHOWN]
    return {
        "operators": len(timed),
        "not_timed": len(found) - len(timed),
        "faster": len(faster),
        "geomean": round(statistics.geometric_mean(ratios.values()), 3) if ratios else None,
        "largest": max(ratios.items(), key=lambda item: item[1]) if ratios else None,
    }


def _ratio(rows: Mapping[str, Mapping[str, float]]) -> float:
    """Return the time of the chosen baseline with code for any shape over that of the present one.

    The judge chooses by the geometric mean over the cases.
    """
    mean = {
        name: statistics.geometric_mean(row[name] for row in rows.values())
        for name in (EAGER, STATIC, ANY_SHAPE)
    }
    return round(min(mean[EAGER], mean[ANY_SHAPE]) / min(mean[EAGER], mean[STATIC]), 3)


if __name__ == "__main__":
    main()
