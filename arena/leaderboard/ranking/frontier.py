"""Cost or memory against the speedup over the set: the agents that none beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arena.leaderboard.pareto import pareto_front
from arena.leaderboard.ranking.rankings import Row
from evaluation.types import Interval

COLUMNS = {"usd": "cost_per_solved", "tokens": "tokens_per_solved"}
"""The column of each unit of spending, the preferred unit first."""


@dataclass(frozen=True)
class Point:
    """One ranked agent. `spent` is the cost or memory of a solved task, as the `Frontier` says."""

    row: Row
    spent: float
    over_set: Interval
    best: bool
    """No other agent spends at most as much and is at least as fast, by the lower ends."""


@dataclass(frozen=True)
class Frontier:
    """The agents whose spending is known, cheapest first, in `unit`.

    It is "usd", "tokens" or "memory", a ratio to the baselines' memory.
    """

    unit: str
    points: list[Point]
    unknown: list[Row]
    """Agents that solved a task with a model of unknown price, with unknown tokens or memory."""

    @property
    def best(self) -> list[Point]:
        return [point for point in self.points if point.best]


def frontier(rows: Sequence[Row]) -> Frontier | None:
    """Return the frontier of the ranked agents that use a model and solved a task.

    In US dollars where the cost of one agent is known, else in tokens; None where neither is.
    """
    ranked = [row for row in rows if row.rank and row.solved]
    models = [row for row in ranked if row.agent.model or row.tokens is not None]
    for unit, name in COLUMNS.items():
        values = {row.agent.pk: getattr(row, name) for row in models}
        known = {agent: value for agent, value in values.items() if value is not None}
        if known:
            return Frontier(unit, *_points(models, known))
    return None


def memory_frontier(rows: Sequence[Row]) -> Frontier | None:
    """Return the frontier of the ranked agents that solved a task; None without any memory."""
    ranked = [row for row in rows if row.rank and row.solved]
    known = {row.agent.pk: row.memory_ratio for row in ranked if row.memory_ratio is not None}
    return Frontier("memory", *_points(ranked, known)) if known else None


def _points(models: Sequence[Row], known: dict[int, float]) -> tuple[list[Point], list[Row]]:
    """Return the points of the agents in `known`, cheapest first, and the other agents."""
    drawn = [
        (row, known[row.agent.pk], reached)
        for row in models
        if row.agent.pk in known and (reached := row.over_set)
    ]
    front = pareto_front(drawn, lambda each: (each[1], each[2].low))
    found = [Point(*each, best) for each, best in front]
    return found, [row for row in models if row.agent.pk not in known]
