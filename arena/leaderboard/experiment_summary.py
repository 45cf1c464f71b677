"""The summary of an experiment: each task by each agent, and each agent against the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from django.template.defaultfilters import pluralize

from arena.catalog.models import Agent, Hardware, Task
from arena.leaderboard.ranking.columns import Columns, Rows
from arena.leaderboard.ranking.filters import EVERY, Filters
from arena.leaderboard.ranking.intervals import faster, measured, ratio
from arena.leaderboard.ranking.rankings import Ranking, chosen_version, rank, silent, submitted
from arena.leaderboard.ranking.results import rows_of, snapshot
from arena.leaderboard.ranking.task_sets import task_set
from arena.runs import experiments
from arena.runs.models import Run
from arena.runs.scoring.judges import age_of
from arena.runs.states import RUN_ACTIVE, RUN_JUDGED, RunStatus
from evaluation.bench.timing.intervals import geomean
from evaluation.types import Interval


@dataclass(frozen=True)
class Cell:
    """One agent on one task and device: the newest run of each repeat."""

    runs: list[Run]

    @cached_property
    def speedup(self) -> Interval | None:
        """The geometric mean over the repeats that passed, on held-out cases."""
        passed = [run for run in self.runs if run.status == RunStatus.PASSED]
        timed = [
            measured(run.unseen_speedup, run.unseen_low, run.unseen_high)
            for run in passed
            if run.unseen_speedup
        ]
        return geomean(timed)

    @property
    def noisy(self) -> bool:
        """Return whether a verdict behind the speedup is noisy."""
        return any(run.noisy for run in self.runs)

    @property
    def older(self) -> str:
        """Return the oldest version of the judge behind the speedup."""
        return min(self.judges, key=age_of, default="")

    @property
    def judges(self) -> set[str]:
        """Return the versions of the judge behind the speedup."""
        return {run.judge_version for run in self.runs if run.status == RunStatus.PASSED}


@dataclass(frozen=True)
class TaskRow:
    """The cells of one task and device, one for each agent; None without a run."""

    task: Task
    hardware: Hardware
    cells: list[Cell | None]


@dataclass(frozen=True)
class AgentComparison:
    """One agent against the first, on the tasks that both passed by the same judge.

    `over` is the geometric mean of its speed over the first's. `ahead` and `behind` count the
    tasks with a significant difference, `level` the others. `noisy` is the number of tasks with a
    noisy verdict on either side.
    """

    first: Agent
    agent: Agent
    over: Interval
    ahead: int
    behind: int
    level: int
    noisy: int

    @property
    def common(self) -> int:
        return self.ahead + self.behind + self.level

    @property
    def summary(self) -> str:
        """One sentence on both."""
        tasks = f"{self.common} task{pluralize(self.common)} that both passed"
        return (
            f"{faster(self.first.title, self.agent.title, self.over)} over {tasks}: faster on "
            f"{self.ahead}, slower on {self.behind}, no significant difference on {self.level}."
        )


@dataclass(frozen=True)
class Standings:
    """The ranking of an experiment on one device, by one version of the judge."""

    hardware: Hardware
    judge: str
    ranking: Ranking
    older: int
    """Results by other versions of the judge, which are left out."""


@dataclass(frozen=True)
class ExperimentSummary:
    """The results of the visible runs; agents in `no_common_task` share none with the first.

    `standings` rank the agents on each device as the leaderboard does, over the tasks of the plan,
    or without one over those of the runs.
    """

    agents: list[Agent]
    standings: list[Standings]
    rows: list[TaskRow]
    comparisons: list[AgentComparison]
    no_common_task: list[Agent]
    judged: int
    passed: int
    active: int


def experiment_summary(runs: Iterable[Run], plan: experiments.Plan | None) -> ExperimentSummary:
    """Summarise the runs of an experiment, given newest first, with its plan if readable.

    Those in quarantine, also by their agent, count nowhere.
    """
    newest: dict[tuple[int, int, int, int], Run] = {}
    for run in runs:
        if run.quarantined_at or run.agent.quarantined_at:
            continue
        key = run.task_version.task_id, run.hardware_id, run.agent_id, run.repeat
        newest.setdefault(key, run)
    order = {slug: number for number, slug in enumerate(plan.tasks_of)} if plan else {}
    agents = sorted(
        {run.agent for run in newest.values()},
        key=lambda agent: (order.get(agent.slug, len(order)), agent.slug),
    )
    rows = _rows(newest.values(), agents)
    comparisons = _comparisons(agents, rows)
    compared = [comparison.agent for comparison in comparisons]
    states = [run.status for run in newest.values()]
    if plan:
        planned = frozenset().union(*plan.tasks_of.values())
    else:
        planned = frozenset(run.task_version.task.slug for run in newest.values())
    return ExperimentSummary(
        agents=agents,
        standings=_standings(
            [run for run in newest.values() if run.status in RUN_JUDGED],
            planned,
        ),
        rows=rows,
        comparisons=comparisons,
        no_common_task=[agent for agent in agents[1:] if agent not in compared],
        judged=sum(state in RUN_JUDGED for state in states),
        passed=states.count(RunStatus.PASSED),
        active=sum(state in RUN_ACTIVE for state in states),
    )


def _standings(judged: Sequence[Run], planned: frozenset[str]) -> list[Standings]:
    """Return the ranking on each device, by its name."""
    rows = rows_of(Run.objects.filter(pk__in=[run.pk for run in judged]))
    agents = {run.agent_id: run.agent for run in judged}
    devices = {run.hardware_id: run.hardware for run in judged}
    catalog = snapshot().catalog
    found = []
    for device in sorted(devices.values(), key=lambda device: device.name):
        own = rows[rows["hardware"] == device.pk]
        tasks = task_set(Filters(suite="", origin=EVERY), catalog, device.kind, planned).tasks
        by_version = {each: own[own["judge"] == each] for each in set(own["judge"].tolist())}
        reads: dict[str, Callable[[], Rows | Columns]] = {
            each: partial(by_version.__getitem__, each) for each in sorted(by_version, key=age_of)
        }
        judge = chosen_version(reads, agents, tasks)
        of_judge = own["judge"] == judge
        ranking = rank(own[of_judge | silent(own, tasks)], agents, tasks)
        older = int((submitted(own) & ~of_judge).sum())
        found.append(Standings(device, judge, ranking, older))
    return found


def _rows(runs: Iterable[Run], agents: Sequence[Agent]) -> list[TaskRow]:
    """Return the rows by task and device name."""
    cells: dict[tuple[Task, Hardware], dict[Agent, list[Run]]] = {}
    for run in sorted(runs, key=lambda run: run.repeat):
        by_agent = cells.setdefault((run.task_version.task, run.hardware), {})
        by_agent.setdefault(run.agent, []).append(run)
    rows = [
        TaskRow(task, hardware, [Cell(by[agent]) if agent in by else None for agent in agents])
        for (task, hardware), by in cells.items()
    ]
    return sorted(rows, key=lambda row: (row.task.slug, row.hardware.name))


def _comparisons(agents: Sequence[Agent], rows: Sequence[TaskRow]) -> list[AgentComparison]:
    found = []
    for number, agent in enumerate(agents[1:], start=1):
        pairs = [
            (cell, first, ratio(cell.speedup, first.speedup))
            for cell, first in ((row.cells[number], row.cells[0]) for row in rows)
            if cell and first and cell.speedup and first.speedup and cell.judges == first.judges
        ]
        over = [each for _, _, each in pairs]
        if mean := geomean(over):
            ahead, behind = sum(e.low > 1 for e in over), sum(e.high < 1 for e in over)
            level = len(over) - ahead - behind
            noisy = sum(cell.noisy or first.noisy for cell, first, _ in pairs)
            found.append(AgentComparison(agents[0], agent, mean, ahead, behind, level, noisy))
    return found
