"""Retained share of every honest kernel: its speedup on held-out cases over that on public ones.

    python benchmarks/retained.py [PATTERN ...] [--within SECONDS] [--output FILE]

Judges the honest kernels that are kept beside each operator, once each, by a final verdict.
PATTERNs choose among `operator/language/name`. A kernel that generalizes retains about all of its
speedup. No verdict is started later than SECONDS after the start; those in FILE are skipped.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.shared import ROOT, now, provenance, resumable_options, write_json
from evaluation.bench.devices import detect
from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.judge.request import Request
from evaluation.kinds.kernel.admission.admit import RETAINED
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_tasks
from evaluation.tasks.operator import Example
from evaluation.tasks.spec import Task, folder_of, self_tested
from evaluation.types import Measurement, Report, Split

LOW, HIGH = RETAINED


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the chosen kernels; the exit code is 0 if all passed and retain what they should."""
    options = resumable_options(__doc__.partition("\n")[0], arguments)
    started, cache = time.monotonic(), options.cache.absolute()
    gpus = [device for device in detect.devices(cache, (GPU,)) if not device.unjudged]
    device = (gpus or detect.devices(cache, (CPU,)))[0]
    output = options.output or ROOT / f"benchmarks/results/retained-{device.kind}.json"
    found = json.loads(output.read_text())["kernels"] if output.is_file() else {}
    for slug, (task, example) in kernels(device.kind).items():
        chosen = any(fnmatchcase(slug, pattern) for pattern in options.patterns)
        if slug in found or not chosen or time.monotonic() - started > options.within:
            continue
        request = Request(task, {task.target_file: example.source}, cache)
        found[slug] = {"at": now(), **figures(evaluate(request))}
        print(slug, json.dumps(found[slug]), flush=True)
        write_json(output, {**provenance(device), "kernels": found})
    wrong = [
        slug
        for slug, each in found.items()
        if each["verdict"] != "passed" or not LOW <= (each["retained"] or 0) <= HIGH
    ]
    print(f"{len(found) - len(wrong)} of {len(found)} within {LOW} and {HIGH}: {', '.join(wrong)}")
    return 1 if wrong else 0


def kernels(kind: str) -> dict[str, tuple[Task, Example]]:
    """Return the honest kernels that this device times, each on the track of its own language."""
    found = {}
    for operator in self_tested(ROOT / "tasks"):
        for task in load_tasks(folder_of(ROOT / "tasks", operator)):
            target = task.track.target
            own = task.track.source == target
            if task.kind != kind or not own or languages()[target].judged_here():
                continue
            for example in task.operator.honest():
                if example.language == target:
                    found[f"{operator}/{target}/{example.name}"] = task, example
    return found


def figures(report: Report) -> dict[str, Any]:
    """Return verdict, speedups, retained share and seconds, and the share of each kind of case."""
    measured = [m for gate in report.gates for m in gate.measurements]
    seen = [m for m in measured if m.split is Split.SEEN]
    kinds = sorted({m.kind for m in measured if m.split is not Split.SEEN})
    return {
        "verdict": report.verdict.value,
        "message": report.message,
        "seen": report.seen and report.seen.speedup,
        "unseen": report.unseen and report.unseen.speedup,
        "unseen_low": report.unseen and report.unseen.low,
        "unseen_high": report.unseen and report.unseen.high,
        "retained": report.seen and report.unseen and report.unseen.speedup / report.seen.speedup,
        "retained_by_kind": {
            kind: _mean([m for m in measured if m.kind == kind and m.split is not Split.SEEN])
            / _mean(seen)
            for kind in kinds
        },
        "timed_hidden_cases": len(measured) - len(seen),
        "seconds": report.seconds["total"],
    }


def _mean(measurements: Sequence[Measurement]) -> float:
    return math.exp(statistics.fmean(math.log(m.speedup) for m in measurements))


if __name__ == "__main__":
    sys.exit(main())
