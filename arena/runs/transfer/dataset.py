"""Everything public as a data set: runs, verdicts, cases, kernels and traces as JSON lines.

Unlike a file of results it holds what everybody can see alone: no hidden case, no seed, no owner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone

from arena.runs.models import Evaluation, Measurement, Run, Submission
from arena.runs.querysets import RunQuerySet
from arena.runs.scores import SCORES
from arena.runs.states import RUN_JUDGED, EvaluationStatus, Scope
from arena.runs.trace import retention

RUN = {
    "id": "pk",
    "task": "task_version__task__operator__slug",
    "track": "task_version__task__track",
    "task_hash": "task_version__content_hash",
    "agent": "agent__slug",
    "harness": "agent__adapter",
    "model": "agent__model",
    "answered_by": "answered_by",
    "hardware": "hardware__slug",
    "experiment": "experiment__slug",
    "quarantine_reason": "quarantine_reason",
    "final_round": "final__round",
} | {
    name: name
    for name in (
        "repeat", "status", "reason", "fault", "budget", "started_at", "ended_at", "rounds",
        "cost_usd", "tokens", "judge_version", "noisy", *SCORES,
    )
}  # fmt: skip
VERDICT = {"run": "submission__run", "round": "submission__round"} | {
    name: name
    for name in (
        "scope", "verdict", "reason", "message", "judge_version", "noisy", "ended_at", *SCORES,
    )
}  # fmt: skip
CASE = {
    "run": "evaluation__submission__run",
    "round": "evaluation__submission__round",
    "scope": "evaluation__scope",
} | {
    name: name
    for name in (
        "case", "symbols", "kind", "dtype", "candidate_us", "baseline", "baseline_us", "speedup",
        "low", "high", "gbps", "tflops", "roofline_share", "noisy",
    )
}  # fmt: skip
KERNEL = {
    "run": "run",
    "round": "round",
    "sha256": "content_hash",
    "note": "note",
    "files": "files",
}
"""Columns of each table, by their names in the data set."""
CARD = """# Kernel Arena: data set of {day}

Kernels that agents and people submitted to an arena, with the verdicts of its judge and the traces
of the agents. It has what everybody can see on the pages of the arena, and nothing else: private
runs, hidden cases and the owners of runs are left out. `manage.py export_dataset` wrote it.

| file | rows | a row |
|---|---|---|
| `runs.jsonl` | {runs} | a judged run: one agent, or one kernel of a person, on one task |
| `verdicts.jsonl` | {verdicts} | a verdict on one round; `scope` is `round` or `final` |
| `cases.jsonl` | {cases} | a public case of a verdict, with latencies in microseconds |
| `kernels.jsonl` | {kernels} | the files that were submitted in a round |
| `traces/RUN.jsonl` | {events} | an event of a trace |

`speedup`, `low` and `high` are of public cases, `unseen_*` of hidden ones, both with 95% confidence
intervals. A run with a `quarantine_reason` counts in no ranking. Join by `run` and `round`.

Licence of verdicts, measurements and traces: {licence}. Kernels belong to those who submitted them.
"""


def write(folder: Path, licence: str) -> dict[str, int]:
    """Write the data set below a folder that is new or empty; return the rows of each table.

    Raises: FileExistsError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    runs: RunQuerySet = Run.objects.public().filter(status__in=RUN_JUDGED).order_by("pk")
    done = Evaluation.objects.filter(
        submission__run__in=runs, status=EvaluationStatus.DONE, scope__in=(Scope.ROUND, Scope.FINAL)
    )
    cases = Measurement.objects.public().filter(evaluation__in=done)
    kernels = Submission.objects.filter(run__in=runs)
    tables = {
        "runs": _rows(runs, RUN),
        "verdicts": _rows(done.order_by("pk"), VERDICT),
        "cases": _rows(cases.order_by("pk"), CASE),
        "kernels": _rows(kernels.order_by("pk"), KERNEL),
    }
    counts = {name: _write(folder / f"{name}.jsonl", rows) for name, rows in tables.items()}
    (folder / "traces").mkdir()
    counts["events"] = 0
    for run in runs.iterator():
        with (folder / "traces" / f"{run.pk}.jsonl").open("w") as file:
            for line in retention.lines(run):
                file.write(line)
                counts["events"] += 1
    card = CARD.format(day=timezone.now().date(), licence=licence, **counts)
    (folder / "README.md").write_text(card)
    return counts


def _rows(found: Any, columns: dict[str, str]) -> Iterator[dict[str, Any]]:
    for row in found.values_list(*columns.values()).iterator(chunk_size=500):
        yield dict(zip(columns, row, strict=True))


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows as JSON lines and return their number."""
    count = 0
    with path.open("w") as file:
        for row in rows:
            file.write(json.dumps(row, cls=DjangoJSONEncoder, ensure_ascii=False) + "\n")
            count += 1
    return count
