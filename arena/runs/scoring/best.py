"""The rule for the best round of a run.

Among the rounds that passed and were timed, the best has the highest lower bound of its speedup's
95 % interval; among equals, the latest. A high median alone may be luck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from django.db.models import QuerySet

from arena.runs.models import Evaluation, Run, Submission
from arena.runs.states import (
    EvaluationStatus,
    Fault,
    RunStatus,
    Scope,
    outcome_of,
)
from evaluation.types import GateName, Verdict


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
        low = judged.low if judged and judged.verdict == Verdict.PASSED else None
        if low is not None and low >= bound:
            best, bound = judged, low
        yield best


def best_first(evaluations: QuerySet[Evaluation]) -> QuerySet[Evaluation]:
    """Return the evaluations that passed and were timed, best first."""
    timed = evaluations.filter(verdict=Verdict.PASSED, low__isnull=False)
    return timed.order_by("-low", "-submission__round")


def chosen_round(run: Run) -> Submission | None:
    """Return the round that gets the final verdict: the best one that passed.

    So one noisy figure wins nothing. Where nothing can be timed it is the latest; without any
    verdict, the last submission. An inconclusive round neither passed nor failed: where none
    passed, it is the latest of those that were right. A final verdict waits longer for a quiet
    machine.
    """
    rounds = run.submissions.order_by("-round").select_related("run")
    judged = Evaluation.objects.filter(submission__run=run, scope=Scope.ROUND)
    if not judged.exclude(verdict="").exists():
        return rounds.first()
    judged = judged.filter(status=EvaluationStatus.DONE)
    passed, latest = judged.filter(verdict=Verdict.PASSED), "-submission__round"
    unmeasured = judged.filter(verdict=Verdict.INCONCLUSIVE)
    right = unmeasured.filter(gates__gate=GateName.CORRECTNESS, gates__verdict=Verdict.PASSED)
    best = best_first(passed).first() or passed.order_by(latest).first()
    best = best or right.order_by(latest).first()
    return rounds.get(pk=best.submission_id) if best else None


def free_rounds(run: Run) -> int:
    """Return the rounds of a run that do not count against its budget: the inconclusive ones."""
    rounds = Evaluation.objects.filter(submission__run=run, scope=Scope.ROUND)
    return free_of(run, rounds.filter(verdict=Verdict.INCONCLUSIVE).count())


def free_of(run: Run, inconclusive: int) -> int:
    """Return how many of a run's inconclusive rounds are free.

    They are as many as the budget has rounds at most, so that a run ends on any machine.
    """
    return min(inconclusive, int(run.budget.get("rounds") or 0))


def end_without_final(run: Run, unjudged: str) -> tuple[RunStatus, str, Fault]:
    """Return status, reason and fault of a run of which no round gets a final verdict.

    The last round that was measured decides. Where all are inconclusive, the arena could not
    measure, and that is its fault. `unjudged` is the reason of a run without any verdict.
    """
    judged = Evaluation.objects.filter(submission__run=run, scope=Scope.ROUND).exclude(verdict="")
    judged = judged.order_by("-submission__round").select_related("submission")
    last = judged.exclude(verdict=Verdict.INCONCLUSIVE).first() or judged.first()
    if last is None:
        return RunStatus.FAILED, unjudged, Fault.CANDIDATE
    why = last.message or last.reason or last.verdict
    what = "could be measured" if last.verdict == Verdict.INCONCLUSIVE else "passed"
    text = f"No round {what}. Round {last.submission.round}, the last: {why}"
    return outcome_of(last.verdict, text)
