"""The rule for the best round of a run.

Among the rounds that passed and were timed, the best has the highest lower bound of its speedup's
95 % interval; among equals, the latest. A high median alone may be luck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from django.db.models import QuerySet

from arena.runs.models import Evaluation, Run, Submission
from arena.runs.states import EvaluationStatus, Scope


class Judged(Protocol):
    """Part of an evaluation that the rule reads."""

    @property
    def verdict(self) -> str: ...
    @property
    def low(self) -> float | None: ...


T = TypeVar("T", bound=Judged)


def best_so_far(rounds: Iterable[T | None]) -> Iterator[T | None]:
    """Yield the best evaluation up to each round; None stands for a round without a verdict."""
    best, bound = None, 0.0
    for judged in rounds:
        low = judged.low if judged and judged.verdict == "passed" else None
        if low is not None and low >= bound:
            best, bound = judged, low
        yield best


def best_first(evaluations: QuerySet[Evaluation]) -> QuerySet[Evaluation]:
    """Return the evaluations that passed and were timed, best first."""
    timed = evaluations.filter(verdict="passed", low__isnull=False)
    return timed.order_by("-low", "-submission__round")


def chosen_round(run: Run) -> Submission | None:
    """Return the round that gets the final verdict: the best one that passed.

    So one noisy figure wins nothing. Where nothing can be timed it is the latest; without any
    verdict, the last submission.
    """
    rounds = run.submissions.order_by("-round").select_related("run")
    judged = Evaluation.objects.filter(submission__run=run, scope=Scope.ROUND)
    if not judged.exclude(verdict="").exists():
        return rounds.first()
    passed = judged.filter(status=EvaluationStatus.DONE, verdict="passed")
    best = best_first(passed).first() or passed.order_by("-submission__round").first()
    return rounds.get(pk=best.submission_id) if best else None


def why_nothing_passed(run: Run) -> str:
    """Return the reason of the last verdict; empty where there is none."""
    judged = Evaluation.objects.filter(submission__run=run, scope=Scope.ROUND).exclude(verdict="")
    last = judged.order_by("-submission__round").select_related("submission").first()
    if last is None:
        return ""
    why = last.message or last.reason or last.verdict
    return f"No round passed. Round {last.submission.round}, the last: {why}"
