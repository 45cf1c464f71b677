"""Counts over verdicts: pass rate by gate and category, failure classes, and best by round.

A verdict is one evaluation, of a round or final. Its gates run in order until one does not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Count, Max, Q

from arena.runs.best import best_so_far
from arena.runs.models import Evaluation, GateResult
from arena.runs.states import Scope
from evaluation.types import GateName

SPEEDUP_THRESHOLDS = (0.0, 1.0, 1.25, 1.5, 2.0)
"""The p of the fast_p curves; 0 counts every run that passed a round."""
NOT_FAILED = ("passed", "skipped")
NO_VERDICT = ("", "broken")
MAX_ROUNDS = 30


@dataclass(frozen=True)
class GateCount:
    """The number of verdicts that reached a gate, and that passed it."""

    gate: str
    reached: int
    passed: int


@dataclass(frozen=True)
class FailureClass:
    """One reason of failure at one gate: its count, the number of agents, the newest verdict."""

    gate: str
    verdict: str
    reason: str
    count: int
    agents: int
    newest: Evaluation


@dataclass(frozen=True)
class CategoryCount:
    """The verdicts of one category of operators; `worst` is the most frequent failure reason."""

    name: str
    passed: int
    total: int
    worst: str


@dataclass(frozen=True)
class FastShares:
    """The share of runs whose best after a round reaches each of SPEEDUP_THRESHOLDS."""

    round: int
    shares: tuple[float, ...]


@dataclass(frozen=True)
class VerdictStats:
    """All counts of the analysis page."""

    verdicts: int
    runs: int
    gates: list[GateCount]
    failures: list[FailureClass]
    categories: list[CategoryCount]
    fast: list[FastShares]


def verdict_stats(runs: Any) -> VerdictStats:
    """Count the verdicts of a queryset of runs; broken evaluations do not count."""
    evaluations = Evaluation.objects.filter(submission__run__in=runs)
    evaluations = evaluations.exclude(scope=Scope.PROFILE).exclude(verdict__in=NO_VERDICT)
    results = GateResult.objects.filter(evaluation__submission__run__in=runs)
    results = results.exclude(evaluation__scope=Scope.PROFILE)
    results = results.exclude(evaluation__verdict__in=NO_VERDICT)
    categories = _categories(evaluations)
    return VerdictStats(
        verdicts=sum(category.total for category in categories),
        runs=evaluations.values("submission__run").distinct().count(),
        gates=_gates(results),
        failures=_failures(results),
        categories=categories,
        fast=_fast(evaluations),
    )


def _gates(results: Any) -> list[GateCount]:
    reached = results.exclude(verdict="skipped")
    counted = reached.values("gate").annotate(
        reached=Count("pk"), passed=Count("pk", filter=Q(verdict="passed"))
    )
    by_gate = {row["gate"]: GateCount(**row) for row in counted}
    return [by_gate.get(gate.value, GateCount(gate.value, 0, 0)) for gate in GateName]


def _failures(results: Any) -> list[FailureClass]:
    rows = list(
        results.exclude(verdict__in=NOT_FAILED)
        .values("gate", "verdict", "reason")
        .annotate(
            count=Count("pk"),
            agents=Count("evaluation__submission__run__agent", distinct=True),
            newest=Max("evaluation"),
        )
        .order_by("-count", "gate", "reason")
    )
    newest = Evaluation.objects.select_related("submission").in_bulk(row["newest"] for row in rows)
    return [FailureClass(**{**row, "newest": newest[row["newest"]]}) for row in rows]


def _categories(evaluations: Any) -> list[CategoryCount]:
    """Return the categories, lowest pass rate first."""
    column = "submission__run__task_version__task__operator__category"
    counted = evaluations.values(column, "verdict", "reason").annotate(count=Count("pk"))
    found = []
    for name, rows in groupby(counted.order_by(column), key=lambda row: row[column]):
        counts = list(rows)
        failed = [row for row in counts if row["verdict"] not in NOT_FAILED]
        worst = max(failed, key=lambda row: row["count"], default={"reason": ""})
        total = sum(row["count"] for row in counts)
        passed = total - sum(row["count"] for row in failed)
        found.append(CategoryCount(name, passed, total, worst["reason"]))
    return sorted(found, key=lambda category: category.passed / category.total)


def _fast(evaluations: Any) -> list[FastShares]:
    """Return the shares by round; a run keeps its best after its last round."""
    columns = ("submission__run", "submission__round", "verdict", "speedup", "low")
    rounds = evaluations.filter(scope=Scope.ROUND).order_by(*columns[:2])
    rows = rounds.values_list(*columns, named=True)
    runs = [_best_by_round(list(group)) for _, group in groupby(rows, key=lambda row: row[0])]
    last = min(MAX_ROUNDS, max((max(best) for best in runs if best), default=0))
    return [
        FastShares(number, tuple(_share(runs, number, bound) for bound in SPEEDUP_THRESHOLDS))
        for number in range(1, last + 1)
    ]


def _best_by_round(rows: Sequence[Any]) -> dict[int, float]:
    """Return the best speedup of one run so far, by the rounds that passed; 0 if untimed."""
    return {
        row.submission__round: best.speedup if best else 0.0
        for row, best in zip(rows, best_so_far(rows), strict=True)
        if row.verdict in NOT_FAILED
    }


def _share(runs: Sequence[dict[int, float]], number: int, bound: float) -> float:
    reached = 0
    for best in runs:
        so_far = [speedup for round_, speedup in best.items() if round_ <= number]
        reached += bool(so_far) and so_far[-1] >= bound
    return reached / len(runs)
