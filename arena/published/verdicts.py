"""Reads of published verdicts: those of a page, with the funnel of modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Q

from arena.published.models import PublishedVerdict
from arena.runs.display.funnels import Funnel, funnel
from evaluation.types import Verdict


@dataclass(frozen=True)
class Shown:
    """One verdict for a page; `outdated` is True for one of another version of the task.

    `names` has names of operators for the page.
    """

    verdict: PublishedVerdict
    names: Mapping[str, str]
    outdated: bool = False

    @property
    def name(self) -> str:
        """Return the name of what was judged."""
        if self.verdict.together:
            return f"{len(self.modules) or 'Several'} modules together"
        return self.names.get(self.verdict.operator, self.verdict.operator)

    @property
    def modules(self) -> list[tuple[str, float | None]]:
        """Return the name and the speedup alone of each of the modules that were timed together."""
        if self.funnel is None or not self.verdict.together:
            return []
        alone = self.funnel.modules.items()
        return [(self.names.get(operator, operator), speedup) for operator, speedup in alone]

    @cached_property
    def funnel(self) -> Funnel | None:
        """Return the funnel of modules in a live model; None for any other verdict."""
        detail = self.verdict.detail
        return funnel(detail, {"phases": detail.get("errors")})


def verdicts_on(
    names: Mapping[str, str], track: str, task_hash: str = "", architecture: str = ""
) -> list[Shown]:
    """Return the verdicts on operators of a track: those that passed and are fastest come first.

    `names` has a name of each operator for the page, `task_hash` the version of a single one. Those
    on several modules of an architecture are among them.
    """
    wanted = Q(operator__in=names, together=False) | Q(operator=architecture, together=True)
    shown = [
        Shown(each, names, bool(task_hash and each.task_hash and each.task_hash != task_hash))
        for each in PublishedVerdict.objects.filter(wanted, track=track).select_related("file")
    ]
    return sorted(shown, key=lambda each: _order(each.verdict))


def best_by_operator(track: str) -> dict[str, PublishedVerdict]:
    """Return the fastest passed verdict on each operator of a track, by the lower end.

    Those on several modules stand under the name of their architecture, which no operator has.
    """
    passed = PublishedVerdict.objects.filter(track=track, verdict=Verdict.PASSED)
    best: dict[str, PublishedVerdict] = {}
    for each in passed.exclude(low=None).defer("detail").select_related("file").order_by("-low"):
        best.setdefault(each.operator, each)
    return best


def counted(track: str) -> Counter[tuple[str, str]]:
    """Return the number of verdicts of a track by operator, or architecture, and by device."""
    found = PublishedVerdict.objects.filter(track=track).order_by()
    return Counter(found.values_list("operator", "file__device"))


def fastest(
    best: Mapping[str, PublishedVerdict], names: Collection[str]
) -> PublishedVerdict | None:
    """Return the fastest of the best verdicts of some names."""
    found = [best[name] for name in names if name in best]
    return max(found, key=lambda each: each.low or 0.0, default=None)


def _order(verdict: PublishedVerdict) -> tuple[bool, float, str]:
    return verdict.verdict != Verdict.PASSED, -(verdict.low or 0.0), verdict.agent
