"""The one ranking: what page, API and feeds all show, and how its numbers are made.

An agent's speedup is the geometric mean over the tasks it passed, shown beside the share of the
board's tasks that it passed: a failure is never averaged in and never left out, and who tried one
easy task does not outrank who passed twenty. Its interval adds the tasks' own in log space, as
independent, and to each what differs from one verdict to the next. A run that broke (our fault) or
was cancelled says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Self

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from arena.catalog.models import Agent
from arena.runs.models import Evaluation, Run
from arena.runs.states import RUN_JUDGED, RunStatus, Scope

SEEN, UNSEEN, GAP = "seen", "unseen", "gap"
GENERALIZATIONS = (SEEN, UNSEEN, GAP)

ANEW, ANEW_CASE = 0.004, 0.006
"""By how much the log speedup of a submission, and of one of its cases, differs from one verdict to
the next, as a standard deviation: the interval of a verdict holds what varies within it. Measured:
0.4 and 0.6 % between the rounds and final verdicts of 53 runs on H200s; on a processor, over ten
verdicts, 0.4 and 1.2 %.
"""

Entry = tuple[int, int]


@dataclass(frozen=True)
class Filters:
    """What is ranked. `generalization` says by which speedup: of seen cases, of unseen ones, or
    how much of the first the second keeps."""

    hardware: str = ""
    category: str = ""
    track: str = ""
    family: str = ""
    experiment: str = ""
    generalization: str = SEEN
    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        if self.generalization not in GENERALIZATIONS:
            raise ValueError(f"{self.generalization!r} is not one of {GENERALIZATIONS}")


@dataclass(frozen=True)
class Estimate:
    """A ratio and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def measured(
        cls, value: float, low: float | None, high: float | None, anew: float = ANEW
    ) -> Self:
        """What one verdict says, with what differs from one to the next."""
        below, above = (
            math.hypot(math.log(max(wide, 1.0)), 1.96 * anew)
            for wide in (value / (low or value), (high or value) / value)
        )
        return cls(value, value * math.exp(-below), value * math.exp(above))

    @classmethod
    def geomean(cls, parts: Sequence[Self]) -> Self | None:
        """The geometric mean of independent estimates: half-widths add in squares, in log space."""
        if not parts:
            return None
        n = len(parts)
        center = sum(math.log(part.value) for part in parts) / n
        below = math.hypot(*(math.log(part.value / part.low) for part in parts)) / n
        above = math.hypot(*(math.log(part.high / part.value) for part in parts)) / n
        return cls(math.exp(center), math.exp(center - below), math.exp(center + above))

    def over(self, other: Self) -> Self:
        """The ratio of two independent estimates."""
        ratio = self.value / other.value
        below = math.hypot(math.log(self.value / self.low), math.log(other.high / other.value))
        above = math.hypot(math.log(self.high / self.value), math.log(other.value / other.low))
        return type(self)(ratio, ratio * math.exp(-below), ratio * math.exp(above))

    def overlaps(self, other: Self) -> bool:
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True)
class Judged:
    """What a board takes of a run that counts."""

    agent: Agent
    id: str
    task_id: int
    hardware_id: int
    category: str
    families: list[str]
    status: str
    speedup: float | None
    low: float | None
    high: float | None
    unseen_speedup: float | None
    unseen_low: float | None
    unseen_high: float | None
    roofline_share: float | None
    started_at: datetime | None
    ended_at: datetime | None
    rounds: int
    cost_usd: float | None
    tokens: int | None

    @property
    def seconds(self) -> float:
        began, ended = self.started_at, self.ended_at
        return (ended - began).total_seconds() if began and ended else 0.0


OPERATOR = "task_version__task__operator"
COLUMNS = (
    "agent", "id", "task_version__task", "hardware", f"{OPERATOR}__category",
    f"{OPERATOR}__families", "status", "speedup", "low", "high", "unseen_speedup", "unseen_low",
    "unseen_high", "roofline_share", "started_at", "ended_at", "rounds", "cost_usd", "tokens",
)  # fmt: skip
"""What is read of each run, as `Judged` has it."""


@dataclass(frozen=True)
class Row:
    """One agent on the board. Equal `band`s differ by less than their intervals can tell.

    `passed` of `total` counts runs. `tasks` were tried, of `board` that anybody ranked tried, on
    each hardware, and `solved`, each by the share of its repeats that passed; `share` is that of
    the board. An agent that is given answers has no rank, and its own tasks for a board.
    """

    rank: int | None
    band: int | None
    agent: Agent
    passed: int
    total: int
    tasks: int
    board: int
    solved: float
    share: float
    speedup: float | None
    low: float | None
    high: float | None
    unseen_speedup: float | None
    unseen_low: float | None
    unseen_high: float | None
    gap: float | None
    roofline_share: float | None
    rounds: float
    seconds: float
    cost: float | None
    tokens: int | None


def rank(filters: Filters = Filters(), runs: Sequence[Judged] | None = None) -> list[Row]:
    """The board: agents by share of tasks passed and geomean, best first; below them, unranked,
    those that are given answers. `runs` are those that count, where they have been read.
    """
    by_agent: dict[int, list[Judged]] = {}
    board: set[Entry] = set()
    for run in ranked_runs(filters) if runs is None else runs:
        by_agent.setdefault(run.agent.pk, []).append(run)
        if not run.agent.open_book:
            board.add(_entry(run))
    scored = [_score(runs, len(board), filters.generalization) for runs in by_agent.values()]
    scored.sort(key=lambda pair: _order(*pair))
    rows: list[Row] = []
    leader: tuple[Row, Estimate | None] | None = None
    band = 0
    ranked = [pair for pair in scored if not pair[0].agent.open_book]
    for position, (row, estimate) in enumerate(ranked, start=1):
        if leader is None or not _level(row, estimate, *leader):
            band, leader = position, (row, estimate)
        rows.append(replace(row, rank=position, band=band))
    return rows + [row for row, _ in scored if row.agent.open_book]


def ranked_runs(filters: Filters = Filters()) -> list[Judged]:
    """The runs that count: judged, public, of no draft, and the newest of each
    (task, agent, hardware, repeat).

    A repeat of another experiment is another attempt at the same: the newest of them counts.
    """
    runs = Run.objects.public().filter(status__in=RUN_JUDGED)
    narrowing = ("hardware", "category", "track", "experiment")
    runs = runs.matching(**{name: getattr(filters, name) for name in narrowing})
    dates = {"created_at__date__gte": filters.since, "created_at__date__lte": filters.until}
    runs = runs.filter(**{lookup: day for lookup, day in dates.items() if day})
    newest_first = (F("created_at").desc(), F("id").desc())
    repeats = ("task_version__task", "agent", "hardware", "repeat")
    place = Window(RowNumber(), partition_by=repeats, order_by=newest_first)
    newest = runs.annotate(place=place).filter(place=1).order_by(*newest_first)
    agents = Agent.objects.in_bulk()
    found = (Judged(agents[who], *rest) for who, *rest in newest.values_list(*COLUMNS))
    return [run for run in found if not filters.family or filters.family in run.families]


def judge_versions(runs: Iterable[Judged]) -> list[str]:
    """Which versions of the judge gave the final verdicts of these runs."""
    ids = [run.id for run in runs]
    finals = Evaluation.objects.filter(submission__run__in=ids, scope=Scope.FINAL)
    return sorted(set(finals.exclude(judge_version="").values_list("judge_version", flat=True)))


def _score(runs: Sequence[Judged], board: int, generalization: str) -> tuple[Row, Estimate | None]:
    """An agent's row, unplaced, and the estimate that it is ranked by.

    Repeats are one entry of the board: it counts by the share of them that passed, and in the mean
    by the geomean of those.
    """
    tasks: dict[Entry, list[Judged]] = {}
    for run in runs:
        tasks.setdefault(_entry(run), []).append(run)
    passed = [run for run in runs if run.status == RunStatus.PASSED]
    seen = _geomean_of_tasks(tasks.values(), SEEN)
    unseen = _geomean_of_tasks(tasks.values(), UNSEEN)
    gap = _geomean_of_tasks(tasks.values(), GAP)
    shares = [run.roofline_share for run in passed if run.roofline_share]
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    tokens = [run.tokens for run in runs if run.tokens is not None]
    solved = round(sum(map(_share_passed, tasks.values())), 6)
    agent = runs[0].agent
    board = len(tasks) if agent.open_book else board
    row = Row(
        rank=None,
        band=None,
        agent=agent,
        passed=len(passed),
        total=len(runs),
        tasks=len(tasks),
        board=board,
        solved=solved,
        share=solved / board,
        speedup=seen and seen.value,
        low=seen and seen.low,
        high=seen and seen.high,
        unseen_speedup=unseen and unseen.value,
        unseen_low=unseen and unseen.low,
        unseen_high=unseen and unseen.high,
        gap=gap and gap.value,
        roofline_share=math.exp(sum(map(math.log, shares)) / len(shares)) if shares else None,
        rounds=sum(run.rounds for run in runs) / len(runs),
        seconds=sum(run.seconds for run in runs) / len(runs),
        cost=sum(costs) if costs else None,
        tokens=sum(tokens) if tokens else None,
    )
    return row, {SEEN: seen, UNSEEN: unseen, GAP: gap}[generalization]


def _entry(run: Judged) -> Entry:
    """What is one line of the board: a task on a hardware."""
    return run.task_id, run.hardware_id


def _share_passed(repeats: Sequence[Judged]) -> float:
    return sum(run.status == RunStatus.PASSED for run in repeats) / len(repeats)


def _geomean_of_tasks(tasks: Iterable[Sequence[Judged]], which: str) -> Estimate | None:
    return Estimate.geomean([mean for repeats in tasks if (mean := of_repeats(repeats, which))])


def of_repeats(repeats: Iterable[Judged | Run], which: str = SEEN) -> Estimate | None:
    """The geometric mean of those that passed; None where none did, or could be measured."""
    return Estimate.geomean([found for run in repeats if (found := _estimate(run, which))])


def _estimate(run: Judged | Run, which: str) -> Estimate | None:
    """What one run says; None where it failed or could not be measured."""
    if run.status != RunStatus.PASSED:
        return None
    seen = _interval(run.speedup, run.low, run.high)
    unseen = _interval(run.unseen_speedup, run.unseen_low, run.unseen_high)
    if which == GAP:
        return unseen.over(seen) if seen and unseen else None
    return seen if which == SEEN else unseen


def _interval(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    if not value or value <= 0:
        return None
    return Estimate.measured(value, low, high)


def _order(row: Row, estimate: Estimate | None) -> tuple[float, float, str]:
    return (-row.share, -estimate.value if estimate else 0.0, row.agent.slug)


def _level(row: Row, estimate: Estimate | None, other: Row, leading: Estimate | None) -> bool:
    """Whether two rows are as good as each other, as far as the measurements can tell."""
    if row.share != other.share or (estimate is None) != (leading is None):
        return False
    return estimate is None or leading is None or estimate.overlaps(leading)
