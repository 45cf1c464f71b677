"""Where and why verdicts end, and what more rounds bring: counts over all that was handed in.

A verdict is one evaluation, of a round or final; its gates are passed in order until one is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Count, Max, Q

from arena.runs.models import Evaluation, GateResult
from arena.runs.states import Scope
from evaluation.types import GateName

GATES = tuple(name.value for name in GateName)
AT_LEAST = (0.0, 1.0, 1.25, 1.5, 2.0)
"""Speedups whose share is told by round; 0 stands for any round that passed."""
RIGHT = ("passed", "skipped")
"""Verdicts that find no fault; what cannot be timed here is skipped."""
NO_VERDICT = ("", "broken")
MOST_ROUNDS = 30


@dataclass(frozen=True)
class Stage:
    """How many verdicts reached a gate, and how many passed it."""

    gate: str
    reached: int
    passed: int


@dataclass(frozen=True)
class Failure:
    """One class of what was not passed: at which gate, how often, by how many agents, and the
    newest.
    """

    gate: str
    verdict: str
    reason: str
    count: int
    agents: int
    newest: Evaluation


@dataclass(frozen=True)
class Category:
    """The verdicts of one category of operators, and what most of its failures were."""

    name: str
    passed: int
    total: int
    worst: str
    """The most frequent reason; empty where none failed."""


@dataclass(frozen=True)
class Progress:
    """After so many rounds, the share of runs whose best so far is at least each of AT_LEAST."""

    round: int
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Analysis:
    verdicts: int
    runs: int
    stages: list[Stage]
    failures: list[Failure]
    categories: list[Category]
    progress: list[Progress]


def analyse(runs: Any) -> Analysis:
    """Analyse these runs (a queryset). What broke by our fault is no verdict on anybody."""
    evaluations = Evaluation.objects.filter(submission__run__in=runs)
    evaluations = evaluations.exclude(scope=Scope.PROFILE).exclude(verdict__in=NO_VERDICT)
    results = GateResult.objects.filter(evaluation__submission__run__in=runs)
    results = results.exclude(evaluation__scope=Scope.PROFILE)
    results = results.exclude(evaluation__verdict__in=NO_VERDICT)
    categories = _categories(evaluations)
    return Analysis(
        verdicts=sum(category.total for category in categories),
        runs=evaluations.values("submission__run").distinct().count(),
        stages=_stages(results),
        failures=_failures(results),
        categories=categories,
        progress=_progress(evaluations),
    )


def _stages(results: Any) -> list[Stage]:
    reached = results.exclude(verdict="skipped")
    counted = reached.values("gate").annotate(
        reached=Count("pk"), passed=Count("pk", filter=Q(verdict="passed"))
    )
    by_gate = {row["gate"]: row for row in counted}
    nothing = {"reached": 0, "passed": 0}
    found = [(gate, by_gate.get(gate, nothing)) for gate in GATES]
    return [Stage(gate, row["reached"], row["passed"]) for gate, row in found]


def _failures(results: Any) -> list[Failure]:
    counted = (
        results.exclude(verdict__in=RIGHT)
        .values("gate", "verdict", "reason")
        .annotate(
            count=Count("pk"),
            agents=Count("evaluation__submission__run__agent", distinct=True),
            newest=Max("evaluation"),
        )
        .order_by("-count", "gate", "reason")
    )
    rows = list(counted)
    newest = Evaluation.objects.select_related("submission").in_bulk(row["newest"] for row in rows)
    return [Failure(**{**row, "newest": newest[row["newest"]]}) for row in rows]


def _categories(evaluations: Any) -> list[Category]:
    of = "submission__run__task_version__task__operator__category"
    counted = evaluations.values(of, "verdict", "reason").annotate(count=Count("pk")).order_by(of)
    found = []
    for name, rows in groupby(counted, key=lambda row: row[of]):
        told = list(rows)
        failed = [row for row in told if row["verdict"] not in RIGHT]
        worst = max(failed, key=lambda row: row["count"], default={"reason": ""})
        passed = sum(row["count"] for row in told if row["verdict"] in RIGHT)
        found.append(Category(name, passed, sum(row["count"] for row in told), worst["reason"]))
    return sorted(found, key=lambda category: category.passed / category.total)


def _progress(evaluations: Any) -> list[Progress]:
    """By round, of all runs that asked for one: a run that asks for no more keeps its best."""
    rounds = (
        evaluations.filter(scope=Scope.ROUND)
        .order_by("submission__run", "submission__round")
        .values_list("submission__run", "submission__round", "verdict", "speedup", "low")
    )
    runs = [_best_by_round(rows) for _, rows in groupby(rounds, key=lambda row: row[0])]
    last = min(MOST_ROUNDS, max((max(best) for best in runs if best), default=0))
    asked = len(runs)
    return [
        Progress(number, tuple(_share(runs, number, bound, asked) for bound in AT_LEAST))
        for number in range(1, last + 1)
    ]


def _best_by_round(rows: Iterable[Sequence[Any]]) -> dict[int, float]:
    """The best speedup so far of one run, by the rounds that passed: of the round whose interval
    begins highest. A round that passed untimed counts as 0.
    """
    best: dict[int, float] = {}
    now, begins = 0.0, -1.0
    for _, number, verdict, speedup, low in rows:
        if verdict not in RIGHT:
            continue
        if (starts := low or speedup or 0.0) > begins:
            now, begins = speedup or 0.0, starts
        best[number] = now
    return best


def _share(runs: Sequence[dict[int, float]], number: int, bound: float, asked: int) -> float:
    reached = 0
    for best in runs:
        so_far = [value for at, value in best.items() if at <= number]
        reached += bool(so_far) and so_far[-1] >= bound
    return reached / asked
