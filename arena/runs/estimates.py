"""Estimates of what runs will cost and take, from the past runs of their agents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from arena.accounts.models import Viewer
from arena.catalog.models import Agent, Hardware, Task
from arena.errors import CannotWork
from arena.runs.models import Run
from arena.runs.services.runs import kinds_for
from arena.runs.states import RUN_JUDGED

MAX_PAST_RUNS = 1000
"""The newest runs of the chosen agents that an estimate reads."""
Pair = tuple[Agent, Task]


@dataclass(frozen=True)
class Pairs:
    """The agents with the tasks that each can work on, and a sentence for each other pair."""

    possible: list[Pair]
    left_out: list[str]

    def tasks_of(self, agent: Agent) -> list[Task]:
        return [task for each, task in self.possible if each == agent]


@dataclass(frozen=True)
class Estimate:
    """Sums over `runs` runs: US dollars, tokens, and seconds from start to end of each.

    A sum is None where no agent of the runs has a past run with that number. `untried` have no
    past run, and `unpriced` use tokens at an unknown price: the sums leave these out. `limits` are
    the same sums if every run uses up its budget, where that has such a limit.
    """

    runs: int
    past: int
    usd: float | None
    tokens: float | None
    seconds: float | None
    untried: list[Agent]
    unpriced: list[Agent]
    limits: dict[str, float]


@dataclass(frozen=True)
class _Past:
    """Cost, tokens and time of one past run; None where unknown."""

    agent: int
    task: int
    usd: float | None
    tokens: int | None
    seconds: float | None


def pairs(
    agents: Iterable[Agent], tasks: Collection[Task], hardware: Hardware | None = None
) -> Pairs:
    """Pair each agent with the tasks that it and the hardware, if one is chosen, can work on."""
    found = Pairs([], [])
    for agent in agents:
        for task in tasks:
            try:
                kinds = kinds_for(agent, task)
            except CannotWork as error:
                found.left_out.append(error.text)
                continue
            if hardware and hardware.kind not in kinds:
                needed = " or ".join(kind.upper() for kind in kinds)
                found.left_out.append(
                    f"{hardware.name} cannot judge {agent.title} at {task.slug}: a {needed} can."
                )
            else:
                found.possible.append((agent, task))
    return found


def estimate(
    chosen: Sequence[Pair], repeats: int, budget: Mapping[str, float], viewer: Viewer
) -> Estimate:
    """Estimate `repeats` runs of each pair: by past runs of the pair, else of the agent.

    They are those that the viewer can see: of a single one the cost and the time can be read.
    """
    agents = {agent.pk: agent for agent, _ in chosen}
    past = _past_runs(agents, viewer)
    by_pair: dict[tuple[int, int], list[_Past]] = {}
    by_agent: dict[int, list[_Past]] = {}
    for run in past:
        by_pair.setdefault((run.agent, run.task), []).append(run)
        by_agent.setdefault(run.agent, []).append(run)
    sums: dict[str, float | None] = {}
    for name in ("usd", "tokens", "seconds"):
        means = [
            _mean(name, by_pair.get((agent.pk, task.pk), []) or by_agent.get(agent.pk, []))
            for agent, task in chosen
        ]
        known = [mean for mean in means if mean is not None]
        sums[name] = sum(known) * repeats if known else None
    runs = len(chosen) * repeats
    with_model = sum(bool(agent.model) for agent, _ in chosen) * repeats
    counted = {"usd": with_model, "tokens": with_model, "seconds": runs}
    return Estimate(
        runs=runs,
        past=len(past),
        **sums,
        untried=[agent for pk, agent in agents.items() if pk not in by_agent],
        unpriced=[
            agents[pk]
            for pk, its_runs in by_agent.items()
            if any(run.tokens is not None and run.usd is None for run in its_runs)
        ],
        limits={name: budget[name] * count for name, count in counted.items() if name in budget},
    )


def _past_runs(agents: Iterable[int], viewer: Viewer) -> list[_Past]:
    judged = Run.objects.visible_to(viewer).filter(status__in=RUN_JUDGED)
    runs = judged.filter(agent__in=agents).order_by("-created_at")
    columns = ("agent", "task_version__task", "cost_usd", "tokens", "started_at", "ended_at")
    return [
        _Past(agent, task, usd, tokens, (end - start).total_seconds() if start and end else None)
        for agent, task, usd, tokens, start, end in runs.values_list(*columns)[:MAX_PAST_RUNS]
    ]


def _mean(name: str, runs: Sequence[_Past]) -> float | None:
    known = [value for run in runs if (value := getattr(run, name)) is not None]
    return sum(known) / len(known) if known else None
