"""The verdicts on the runs that boards count, as columns in memory.

A process reads the verdicts of a run once, and again when its standing changes. Statistics take a
`Verdicts` and need no database.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from django.db.models import Case, IntegerField, Q, Sum, When
from numpy.typing import NDArray

from arena.leaderboard.ranking.results import Snapshot, computed
from arena.runs.models import Evaluation, GateResult
from arena.runs.states import Scope
from evaluation.types import GateName, Verdict

GATES = tuple(gate.value for gate in GateName)
NOT_FAILED = (Verdict.PASSED, Verdict.SKIPPED)
NO_VERDICT = ("", Verdict.BROKEN, Verdict.INCONCLUSIVE)
MAX_RUNS_READ = 500
"""Runs whose verdicts are read by their ids; for more, all verdicts are read."""

_VERDICT = np.dtype(
    [
        *[(name, "i8") for name in ("number", "evaluation")],
        *[(name, "i4") for name in ("round", "verdict", "reason", "reached", "passed")],
        ("final", "?"),
        *[(name, "f8") for name in ("speedup", "low")],
    ]
)
_FAILURE = np.dtype([("evaluation", "i8"), *[(n, "i4") for n in ("gate", "verdict", "reason")]])


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on some runs, each an evaluation, of a round or final; none is broken.

    Columns of verdicts: `run` is the position of the run in `run_ids`; `agent`, `task` and
    `hardware` are ids; `category` numbers `categories`. `verdict` and `reason` number `names`.
    `reached` and `passed` have a bit for each of GATES. `speedup` and `low` are NaN where nothing
    was timed.

    Columns of failures, gates that did not pass: `failure` is the position of the verdict, `gate`
    numbers GATES; `failed_verdict` and `failed_reason` number `names`.
    """

    names: Sequence[str]
    categories: Sequence[str]
    run_ids: NDArray[Any]
    run: NDArray[Any]
    agent: NDArray[Any]
    task: NDArray[Any]
    hardware: NDArray[Any]
    category: NDArray[Any]
    evaluation: NDArray[Any]
    round: NDArray[Any]
    final: NDArray[Any]
    verdict: NDArray[Any]
    reason: NDArray[Any]
    reached: NDArray[Any]
    passed: NDArray[Any]
    speedup: NDArray[Any]
    low: NDArray[Any]
    failure: NDArray[Any]
    gate: NDArray[Any]
    failed_verdict: NDArray[Any]
    failed_reason: NDArray[Any]

    def __len__(self) -> int:
        return len(self.run)

    @property
    def failed(self) -> NDArray[Any]:
        """Return which verdicts are failures."""
        return ~np.isin(self.verdict, self.numbers_of(NOT_FAILED))

    def numbers_of(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of those names that any verdict has."""
        return [self.names.index(name) for name in names if name in self.names]

    def of_runs(self, mask: NDArray[Any]) -> Verdicts:
        """Return the verdicts on the runs of a mask over the table."""
        return self.among(mask[self.run])

    def among(self, chosen: NDArray[Any]) -> Verdicts:
        """Return the verdicts of a mask."""
        failures = chosen[self.failure]
        columns = {name: getattr(self, name)[chosen] for name in _OF_VERDICT}
        columns |= {name: getattr(self, name)[failures] for name in _OF_FAILURE}
        columns["failure"] = (np.cumsum(chosen) - 1)[columns["failure"]]
        return replace(self, **columns)


_OF_FAILURE = ("failure", "gate", "failed_verdict", "failed_reason")
_OF_VERDICT = tuple(
    each.name
    for each in fields(Verdicts)
    if each.name not in (*_OF_FAILURE, "names", "categories", "run_ids")
)


@dataclass
class _Read:
    """The verdicts that this process has read; `numbers` are those of runs at a version."""

    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    verdicts: NDArray[Any] = field(default_factory=lambda: np.zeros(0, _VERDICT))
    failures: NDArray[Any] = field(default_factory=lambda: np.zeros(0, _FAILURE))

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))


_read = _Read()
_lock = threading.Lock()


def forget() -> None:
    """Drop what this process keeps, for a database that was replaced."""
    global _read
    _read = _Read()


def verdicts(shown: Snapshot) -> Verdicts:
    """Return the verdicts on the standings that count."""
    return computed(shown, "verdicts", lambda: _verdicts(shown))


def _verdicts(shown: Snapshot) -> Verdicts:
    global _read
    rows = shown.table.rows
    newest = np.flatnonzero(shown.table.newest)
    wanted = list(zip(rows["run"][newest].tolist(), rows["version"][newest].tolist(), strict=True))
    with _lock:
        missing = [key for key in wanted if key not in _read.numbers]
        many = len(missing) > MAX_RUNS_READ
        if many or len(_read.numbers) > 2 * len(wanted) + MAX_RUNS_READ:
            _read, missing = _Read(), wanted
        read = _read
        _read_runs(read, missing, all_runs=many)
        position = np.full(len(read.numbers), -1)
        position[[read.numbers[key] for key in wanted]] = newest
        every, failures = read.verdicts, read.failures
        names = list(read.names)
    run = position[every["number"]]
    every, run = every[run >= 0], run[run >= 0]
    order = np.argsort(every["evaluation"])
    every, run = every[order], run[order]
    failures = failures[np.isin(failures["evaluation"], every["evaluation"])]
    category = shown.table.facets["category"]
    return Verdicts(
        names=names,
        categories=category.values,
        run_ids=rows["run"],
        run=run,
        category=category.numbers[run],
        **{name: rows[name][run] for name in ("agent", "task", "hardware")},
        **{name: every[name] for name in _VERDICT.names or () if name != "number"},
        failure=np.searchsorted(every["evaluation"], failures["evaluation"]),
        gate=failures["gate"],
        failed_verdict=failures["verdict"],
        failed_reason=failures["reason"],
    )


def _read_runs(read: _Read, runs: Sequence[tuple[str, int]], all_runs: bool) -> None:
    """Read the verdicts on runs that were not read yet; with `all_runs` they are all there are."""
    if not runs:
        return
    first = len(read.numbers)
    read.numbers |= {key: first + n for n, key in enumerate(runs)}
    numbers = {run: first + n for n, (run, _) in enumerate(runs)}
    judged = Evaluation.objects.counted().exclude(verdict__in=NO_VERDICT)
    gates = GateResult.objects.order_by()
    if not all_runs:
        judged = judged.filter(submission__run__in=numbers)
        gates = gates.filter(evaluation__submission__run__in=numbers)
    columns = ("submission__run", "pk", "submission__round", "verdict", "reason")
    rows = judged.order_by().values_list(*columns, "scope", "speedup", "low")
    bits = Case(
        *(When(gate=name, then=1 << number) for number, name in enumerate(GATES)),
        default=0,
        output_field=IntegerField(),
    )
    reached = Sum(bits, filter=~Q(verdict=Verdict.SKIPPED), default=0)
    passed = Sum(bits, filter=Q(verdict=Verdict.PASSED), default=0)
    counted = gates.values_list("evaluation").annotate(bits_reached=reached, bits_passed=passed)
    reached_and_passed = {pk: both for pk, *both in counted}
    verdicts = [
        (
            numbers[run],
            pk,
            number,
            read.name(verdict),
            read.name(reason),
            *reached_and_passed.get(pk, (0, 0)),
            scope == Scope.FINAL,
            speedup,
            low,
        )
        for run, pk, number, verdict, reason, scope, speedup, low in rows
        if run in numbers
    ]
    failed = gates.filter(gate__in=GATES).exclude(verdict__in=(*NOT_FAILED, *NO_VERDICT))
    failures = [
        (pk, GATES.index(gate), read.name(verdict), read.name(reason))
        for pk, gate, verdict, reason in failed.values_list(
            "evaluation", "gate", "verdict", "reason"
        )
    ]
    added = np.array(verdicts, _VERDICT)
    read.verdicts = np.concatenate([read.verdicts, added])
    again = np.isin(read.failures["evaluation"], added["evaluation"])  # of a run that changed
    read.failures = np.concatenate([read.failures[~again], np.array(failures, _FAILURE)])
