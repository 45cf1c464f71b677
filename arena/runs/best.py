"""The rule for the best round of a run.

Among the rounds that passed and were timed, the best has the highest lower bound of its speedup's
95 % interval; among equals, the latest. A high median alone may be luck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from django.db.models import QuerySet

from arena.runs.models import Evaluation


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
