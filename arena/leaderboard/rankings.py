"""The ranking of agents that the pages and the API show.

Agents are ordered by the share of the board's tasks that they passed, then by their speedup: the
geometric mean over the tasks passed. A failed task lowers the share and does not enter the mean.
The interval of an agent combines those of its tasks as independent, in log space. Runs that broke
through a fault of the arena, and cancelled runs, do not count.

Cost and tokens are those of the runs that count, failed ones too, with those of the broken runs
that they continue. Divided by the runs that passed, they are the cost and tokens per solved task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, datetime

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from arena.catalog.models import Agent
from arena.leaderboard.intervals import measured, overlap, ratio
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import OPERATOR
from arena.runs.states import RunStatus, Scope
from evaluation.intervals import geomean
from evaluation.types import Interval

SEEN, UNSEEN, GAP = "seen", "unseen", "gap"
GENERALIZATIONS = {SEEN: "public", UNSEEN: "held-out", GAP: "retained"}
"""The speedups to rank by, with the label of each."""

Entry = tuple[int, int]
"""One line of a board: the ids of a task and of a device."""


@dataclass(frozen=True)
class Filters:
    """The runs of a board, and the speedup it is ranked by (`generalization`)."""

    hardware: str = ""
    category: str = ""
    track: str = ""
    family: str = ""
    model: str = ""
    harness: str = ""
    experiment: str = ""
    generalization: str = SEEN
    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        if self.generalization not in GENERALIZATIONS:
            raise ValueError(f"{self.generalization!r} is not one of {(*GENERALIZATIONS,)}")


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """The columns of a run that a board reads, without the model."""

    agent: Agent
    id: str
    task_id: int
    hardware_id: int
    continues_id: str | None
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
    def entry(self) -> Entry:
        return self.task_id, self.hardware_id

    @property
    def seconds(self) -> float:
        """Seconds from start to end; 0 where either is unknown."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def unpriced(self) -> bool:
        """Return whether it used tokens at an unknown price."""
        return self.tokens is not None and self.cost_usd is None

    @classmethod
    def of(cls, run: Run) -> JudgedRun:
        """Return the columns of a run whose names are joined."""
        task = run.task_version.task
        return cls(
            run.agent,
            task_id=task.pk,
            category=task.operator.category,
            families=task.operator.families,
            **{
                name: getattr(run, name) for name in COLUMNS if "__" not in name and name != "agent"
            },
        )


RENAMED = {
    "task_id": "task_version__task",
    "category": f"{OPERATOR}__category",
    "families": f"{OPERATOR}__families",
}
COLUMNS = tuple(RENAMED.get(field.name, field.name) for field in fields(JudgedRun))
"""The database columns of the fields of `JudgedRun`."""
OWN_COLUMNS = tuple(name for name in COLUMNS if name != "agent" and "__" not in name)


@dataclass(frozen=True)
class Row:
    """One agent on the board. Rows with equal `band` do not differ significantly.

    `passed` of `total` counts runs. `tasks` were attempted, of the `board` tasks that any ranked
    agent attempted on a device. `solved` adds, for each task, the share of its repeats that
    passed; `share` is `solved / board`. An open-book agent has no rank, and its board is its own
    tasks. `cost` is in US dollars; it is None where no run used a model, or where the price of one
    is unknown.
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
    cost_per_solved: float | None
    tokens_per_solved: float | None

    @property
    def unpriced(self) -> bool:
        """Return whether it used tokens at an unknown price."""
        return self.tokens is not None and self.cost is None

    @property
    def pass_rate(self) -> float:
        """Share of the attempted tasks that passed."""
        return self.solved / self.tasks


def rank(filters: Filters = Filters(), runs: Sequence[JudgedRun] | None = None) -> list[Row]:
    """Return the board, best agent first, then the open-book agents, which are unranked.

    `runs` are the runs that count, where the caller has read them.
    """
    runs = ranked_runs(filters) if runs is None else runs
    board = {run.entry for run in runs if not run.agent.open_book}
    by_agent: dict[int, list[JudgedRun]] = {}
    for run in runs:
        by_agent.setdefault(run.agent.pk, []).append(run)
    scored = [_score(runs, len(board), filters.generalization) for runs in by_agent.values()]
    scored.sort(key=lambda pair: _order(*pair))
    rows: list[Row] = []
    leader: tuple[Row, Interval | None] | None = None
    band = 0
    ranked = [pair for pair in scored if not pair[0].agent.open_book]
    for position, (row, speedup) in enumerate(ranked, start=1):
        if leader is None or not _tied(row, speedup, *leader):
            band, leader = position, (row, speedup)
        rows.append(replace(row, rank=position, band=band))
    return rows + [row for row, _ in scored if row.agent.open_book]


def ranked_runs(filters: Filters = Filters()) -> list[JudgedRun]:
    """Return the runs that count: judged, public, not of a draft task, and not in quarantine.

    Of several runs of the same (task, agent, hardware, repeat) only the newest counts, whatever
    experiment it belongs to.
    """
    runs = Run.objects.counted()
    names = ("hardware", "category", "track", "model", "harness", "experiment")
    runs = runs.matching(**{name: getattr(filters, name) for name in names})
    dates = {"created_at__date__gte": filters.since, "created_at__date__lte": filters.until}
    runs = runs.filter(**{lookup: day for lookup, day in dates.items() if day})
    newest_first = (F("created_at").desc(), F("id").desc())
    repeats = ("task_version__task", "agent", "hardware", "repeat")
    position = Window(RowNumber(), partition_by=repeats, order_by=newest_first)
    newest = runs.annotate(position=position).filter(position=1).order_by(*newest_first)
    agents = Agent.objects.in_bulk()
    found = (JudgedRun(agents[pk], *rest) for pk, *rest in newest.values_list(*COLUMNS))
    return with_continued(
        [run for run in found if not filters.family or filters.family in run.families]
    )


def with_continued(runs: Iterable[JudgedRun]) -> list[JudgedRun]:
    """Add the cost and tokens of the broken runs that each run continues, in one query."""
    continuing = Run.objects.exclude(continues=None)
    columns = ("pk", "continues", "continues__cost_usd", "continues__tokens")
    before = {pk: rest for pk, *rest in continuing.values_list(*columns)}
    found = []
    for run in runs:
        previous = run.id
        while previous in before:
            previous, cost, tokens = before[previous]
            run = _with_cost(run, cost, tokens)
        found.append(run)
    return found


def judge_versions(runs: Iterable[JudgedRun]) -> list[str]:
    """Return the versions of the judge that gave the final verdicts of these runs."""
    ids = [run.id for run in runs]
    finals = Evaluation.objects.filter(submission__run__in=ids, scope=Scope.FINAL)
    return sorted(set(finals.exclude(judge_version="").values_list("judge_version", flat=True)))


def geomean_of_repeats(repeats: Iterable[JudgedRun | Run], which: str = SEEN) -> Interval | None:
    """Return the geometric mean of the passed repeats; None where none passed and was timed."""
    return geomean([speedup for run in repeats if (speedup := _speedup(run, which))])


def _score(
    runs: Sequence[JudgedRun], board: int, generalization: str
) -> tuple[Row, Interval | None]:
    """Return the unplaced row of an agent and the speedup that it is ranked by."""
    tasks: dict[Entry, list[JudgedRun]] = {}
    for run in runs:
        tasks.setdefault(run.entry, []).append(run)
    passed = [run for run in runs if run.status == RunStatus.PASSED]
    speedups = {
        which: geomean(list(filter(None, (geomean_of_repeats(t, which) for t in tasks.values()))))
        for which in GENERALIZATIONS
    }
    gap = speedups[GAP]
    shares = [run.roofline_share for run in passed if run.roofline_share]
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    cost = sum(costs) if costs and not any(run.unpriced for run in runs) else None
    counts = [run.tokens for run in runs if run.tokens is not None]
    tokens = sum(counts) if counts else None
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
        **_columns("", speedups[SEEN]),
        **_columns("unseen_", speedups[UNSEEN]),
        gap=gap.speedup if gap else None,
        roofline_share=math.exp(sum(map(math.log, shares)) / len(shares)) if shares else None,
        rounds=sum(run.rounds for run in runs) / len(runs),
        seconds=sum(run.seconds for run in runs) / len(runs),
        cost=cost,
        tokens=tokens,
        cost_per_solved=cost / len(passed) if cost is not None and passed else None,
        tokens_per_solved=tokens / len(passed) if tokens is not None and passed else None,
    )
    return row, speedups[generalization]


def _with_cost(run: JudgedRun, cost: float | None, tokens: int | None) -> JudgedRun:
    """Add what another run has spent. An unknown price makes the sum unknown."""
    if tokens is None and cost is None:
        return run
    unpriced = run.unpriced or cost is None
    return replace(
        run,
        cost_usd=None if unpriced else (run.cost_usd or 0.0) + (cost or 0.0),
        tokens=(run.tokens or 0) + (tokens or 0),
    )


def _columns(prefix: str, interval: Interval | None) -> dict[str, float | None]:
    values = asdict(interval) if interval else dict.fromkeys(("speedup", "low", "high"))
    return {f"{prefix}{name}": value for name, value in values.items()}


def _share_passed(repeats: Sequence[JudgedRun]) -> float:
    return sum(run.status == RunStatus.PASSED for run in repeats) / len(repeats)


def _speedup(run: JudgedRun | Run, which: str) -> Interval | None:
    """Return the speedup of one run; None where it did not pass or was not timed."""
    if run.status != RunStatus.PASSED:
        return None
    seen = measured(run.speedup, run.low, run.high) if run.speedup else None
    if which == SEEN:
        return seen
    value = run.unseen_speedup
    unseen = measured(value, run.unseen_low, run.unseen_high) if value else None
    if which == UNSEEN:
        return unseen
    return ratio(unseen, seen) if seen and unseen else None


def _order(row: Row, speedup: Interval | None) -> tuple[float, float, str]:
    return (-row.share, -speedup.speedup if speedup else 0.0, row.agent.slug)


def _tied(row: Row, speedup: Interval | None, leader: Row, leading: Interval | None) -> bool:
    """Return whether a row does not differ significantly from the leader of a band."""
    if row.share != leader.share or (speedup is None) != (leading is None):
        return False
    return speedup is None or leading is None or overlap(speedup, leading)
