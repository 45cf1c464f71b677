"""Places in a contest: by public speedups until its deadline, by final verdicts after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F
from django.utils import timezone

from arena.contests.entries import admissible, counting
from arena.contests.models import JUDGING, OPEN, OVER, STARTS_LATER, Contest, Entry
from arena.runs.states import EVALUATION_ACTIVE
from evaluation.types import Verdict


@dataclass(frozen=True)
class Result:
    """An entry with the speedup that ranks it, and its 95 % interval."""

    entry: Entry
    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class Place:
    """A result with its rank; where it is tied, others have the same rank."""

    rank: int
    result: Result
    tied: bool


@dataclass(frozen=True)
class Change:
    """The standing after one entry: when, whose, its speedup and its rank then."""

    at: datetime
    team: str
    speedup: float
    rank: int
    leader: str


@dataclass(frozen=True)
class Standing:
    """All that a contest's page shows.

    `final` is whether final verdicts rank; until all of them are there, none is shown. `unranked`
    are entries whose final verdict is no pass. `unjudged` are those that have none, because it was
    cancelled or the judge could not measure.
    """

    state: str
    places: list[Place]
    unranked: list[Entry]
    unjudged: list[Entry]
    late: list[Entry]
    changes: list[Change]
    judged: int
    final: bool


@dataclass(frozen=True)
class Summary:
    """A contest with its state and the number of those whose entries count."""

    contest: Contest
    state: str
    teams: int


def places(results: Iterable[Result]) -> list[Place]:
    """Rank results: one more than the number of those that are surely faster.

    A result is surely faster where its interval is above that of the other.
    """
    found = sorted(results, key=lambda each: (-each.speedup, each.entry.entered_at))
    ranks = [1 + sum(other.low > each.high for other in found) for each in found]
    ranked = [
        Place(rank, each, ranks.count(rank) > 1) for rank, each in zip(ranks, found, strict=True)
    ]
    return sorted(ranked, key=lambda each: each.rank)  # stable: the faster first


def standing(contest: Contest) -> Standing:
    """Return the standing of a contest now."""
    entries = counting(contest)
    waiting = [e for e in entries if e.final and e.final.status in EVALUATION_ACTIVE]
    is_final = contest.finals_requested_at is not None and not waiting
    results = [_final(each) if is_final else _public(each) for each in entries]
    without = [e for e, result in zip(entries, results, strict=True) if not result]
    late = admissible().filter(contest=contest, entered_at__gt=contest.ends_at)
    return Standing(
        state=_state(contest, is_final),
        places=places(each for each in results if each),
        unranked=[each for each in without if _is_judged(each)],
        unjudged=[each for each in without if not _is_judged(each)],
        late=list(late.select_related("contest", "run", "owner")),
        changes=_changes(contest),
        judged=len(entries) - len(waiting),
        final=is_final,
    )


def summaries() -> list[Summary]:
    """Return all contests, with what the list shows of them."""
    entries = admissible().order_by()
    on_time = entries.filter(entered_at__lte=F("contest__ends_at"))
    teams = dict(on_time.values_list("contest").annotate(Count("team", distinct=True)))
    waiting = set(
        entries.filter(final__status__in=EVALUATION_ACTIVE).values_list("contest", flat=True)
    )
    return [
        Summary(
            each,
            _state(each, each.finals_requested_at is not None and each.pk not in waiting),
            teams.get(each.pk, 0),
        )
        for each in Contest.objects.select_related("task__operator", "hardware")
    ]


def _state(contest: Contest, is_final: bool) -> str:
    now = timezone.now()
    if not contest.has_started(now):
        return STARTS_LATER
    if not contest.has_ended(now):
        return OPEN
    return OVER if is_final else JUDGING


def _public(entry: Entry) -> Result:
    return Result(entry, entry.speedup, entry.low, entry.high)


def _final(entry: Entry) -> Result | None:
    """Return the result of a final verdict on hidden cases; None where it did not pass."""
    final = entry.final
    if final is None or final.verdict != Verdict.PASSED or final.unseen_speedup is None:
        return None
    low, high = final.unseen_low, final.unseen_high
    return Result(
        entry, final.unseen_speedup, low or final.unseen_speedup, high or final.unseen_speedup
    )


def _is_judged(entry: Entry) -> bool:
    """Return whether its final verdict says something of the submission."""
    return entry.final is not None and entry.final.replaces


def _changes(contest: Contest) -> list[Change]:
    """Return the standing after each entry before the deadline, the newest first."""
    newest: dict[str, Result] = {}
    found = []
    on_time = admissible().filter(contest=contest, entered_at__lte=contest.ends_at)
    for entry in on_time.select_related("contest"):
        newest[entry.team] = _public(entry)
        ranked = places(newest.values())
        rank = next(each.rank for each in ranked if each.result.entry == entry)
        leader = ranked[0].result.entry.team
        found.append(Change(entry.entered_at, entry.team, entry.speedup, rank, leader))
    return found[::-1]
