"""An experiment at a glance: every task by every agent, and each agent beside the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from arena.catalog.models import Agent, Hardware, Task
from arena.leaderboard.comparison import faster
from arena.leaderboard.rankings import Estimate, of_repeats
from arena.runs import experiments
from arena.runs.models import Run
from arena.runs.states import RUN_ACTIVE, RUN_JUDGED, RunStatus


@dataclass(frozen=True)
class Cell:
    """One agent at one task on one hardware: its repeats, of each the newest attempt."""

    runs: list[Run]

    @cached_property
    def estimate(self) -> Estimate | None:
        """The geometric mean of the repeats that passed."""
        return of_repeats(self.runs)


@dataclass(frozen=True)
class Line:
    """What each agent came to on one task and hardware, None for who has no run there."""

    task: Task
    hardware: Hardware
    cells: list[Cell | None]


@dataclass(frozen=True)
class Rival:
    """An agent beside the first, on what both passed. `over` is the geometric mean of its speed
    over the first's; it is `ahead` and `behind` where intervals tell, and else `level`.
    """

    first: Agent
    agent: Agent
    over: Estimate
    ahead: int
    behind: int
    level: int

    @property
    def common(self) -> int:
        return self.ahead + self.behind + self.level

    @property
    def reading(self) -> str:
        """Both in one sentence."""
        said = faster(self.first.title, self.agent.title, self.over)
        tasks = f"{self.common} task{'s' if self.common > 1 else ''} that both passed"
        return (
            f"{said} over {tasks}: faster on {self.ahead}, slower on {self.behind}, "
            f"not to be told apart on {self.level}."
        )


@dataclass(frozen=True)
class Overview:
    """What came of the runs that may be seen. Who is `apart` cannot be set beside the first agent:
    there is no task on which both have a speedup.
    """

    agents: list[Agent]
    lines: list[Line]
    rivals: list[Rival]
    apart: list[Agent]
    judged: int
    passed: int
    active: int


def overview(runs: Iterable[Run], plan: experiments.Plan | None) -> Overview:
    """Of those of an experiment's runs that may be seen, newest first, with its plan where that can
    be read.
    """
    newest: dict[tuple[int, int, int, int], Run] = {}
    for run in runs:
        place = run.task_version.task_id, run.hardware_id, run.agent_id, run.repeat
        newest.setdefault(place, run)
    shown = list(newest.values())
    agents = _in_order({run.agent for run in shown}, plan)
    lines = _lines(shown, agents)
    rivals = _rivals(agents, lines)
    beside = [rival.agent for rival in rivals]
    states = [run.status for run in shown]
    return Overview(
        agents=agents,
        lines=lines,
        rivals=rivals,
        apart=[agent for agent in agents[1:] if agent not in beside],
        judged=sum(state in RUN_JUDGED for state in states),
        passed=states.count(RunStatus.PASSED),
        active=sum(state in RUN_ACTIVE for state in states),
    )


def _in_order(agents: Iterable[Agent], plan: experiments.Plan | None) -> list[Agent]:
    """As the plan names them; after them others, by name."""
    named = {slug: number for number, slug in enumerate(plan.tasks_of)} if plan else {}
    return sorted(agents, key=lambda agent: (named.get(agent.slug, len(named)), agent.slug))


def _lines(runs: Iterable[Run], agents: Sequence[Agent]) -> list[Line]:
    cells: dict[tuple[Task, Hardware], dict[Agent, list[Run]]] = {}
    for run in sorted(runs, key=lambda run: run.repeat):
        theirs = cells.setdefault((run.task_version.task, run.hardware), {})
        theirs.setdefault(run.agent, []).append(run)
    return [
        Line(task, hardware, [Cell(by[agent]) if agent in by else None for agent in agents])
        for (task, hardware), by in sorted(
            cells.items(), key=lambda item: (item[0][0].slug, item[0][1].name)
        )
    ]


def _rivals(agents: Sequence[Agent], lines: Sequence[Line]) -> list[Rival]:
    found = []
    for number, agent in enumerate(agents[1:], start=1):
        pairs = [
            (theirs, first)
            for line in lines
            if (theirs := _estimate(line.cells[number])) and (first := _estimate(line.cells[0]))
        ]
        over = [theirs.over(first) for theirs, first in pairs]
        mean = Estimate.geomean(over)
        if mean is None:
            continue
        ahead, behind = sum(e.low > 1 for e in over), sum(e.high < 1 for e in over)
        found.append(Rival(agents[0], agent, mean, ahead, behind, level=len(over) - ahead - behind))
    return found


def _estimate(cell: Cell | None) -> Estimate | None:
    return cell.estimate if cell else None
