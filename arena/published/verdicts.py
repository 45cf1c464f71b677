"""Reads of published verdicts: those on the tasks of a page, with the funnel of a module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from arena.published.models import PublishedVerdict
from arena.runs.display.funnels import Funnel, funnel
from evaluation.types import Verdict


@dataclass(frozen=True)
class Shown:
    """One verdict for a page; `outdated` is True for one of another version of the task."""

    verdict: PublishedVerdict
    name: str
    outdated: bool = False

    @cached_property
    def funnel(self) -> Funnel | None:
        """Return the funnel of a module in a live model; None for any other verdict."""
        detail = self.verdict.detail
        return funnel(detail, {"phases": detail.get("errors")})


def verdicts_on(names: Mapping[str, str], track: str, task_hash: str = "") -> list[Shown]:
    """Return the verdicts on operators of a track: those that passed and are fastest come first.

    `names` has a name of each operator for the page, `task_hash` the version of a single one.
    """
    rows = PublishedVerdict.objects.filter(operator__in=names, track=track).select_related("file")
    shown = [
        Shown(
            each,
            names[each.operator],
            bool(task_hash and each.task_hash and each.task_hash != task_hash),
        )
        for each in rows
    ]
    return sorted(shown, key=lambda each: _order(each.verdict))


def best_by_operator(track: str) -> dict[str, PublishedVerdict]:
    """Return the fastest passed verdict on each operator of a track, by the lower end."""
    passed = PublishedVerdict.objects.filter(track=track, verdict=Verdict.PASSED)
    best: dict[str, PublishedVerdict] = {}
    for each in passed.exclude(low=None).defer("detail").select_related("file").order_by("-low"):
        best.setdefault(each.operator, each)
    return best


def counted(track: str) -> Counter[str]:
    """Return the number of verdicts on each operator of a track."""
    found = PublishedVerdict.objects.filter(track=track).order_by()
    return Counter(found.values_list("operator", flat=True))


def fastest(
    best: Mapping[str, PublishedVerdict], operators: Collection[str]
) -> PublishedVerdict | None:
    """Return the fastest of the best verdicts on some operators."""
    found = [best[name] for name in operators if name in best]
    return max(found, key=lambda each: each.low or 0.0, default=None)


def _order(verdict: PublishedVerdict) -> tuple[bool, float, str]:
    return verdict.verdict != Verdict.PASSED, -(verdict.low or 0.0), verdict.agent
