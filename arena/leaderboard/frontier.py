"""Cost against speedup: the cost of a solved task, and the agents that none beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arena.leaderboard.rankings import SEEN, UNSEEN, Row

COLUMNS = {"usd": "cost_per_solved", "tokens": "tokens_per_solved"}
"""The column of each unit of spending, the preferred unit first."""


@dataclass(frozen=True)
class Point:
    """One ranked agent. `spent` is what a solved task costs it, in the unit of its `Frontier`."""

    row: Row
    spent: float
    speedup: float
    low: float | None
    high: float | None
    best: bool
    """No other agent spends at most as much for at least the same speedup."""


@dataclass(frozen=True)
class Frontier:
    """The agents whose spending is known, cheapest first, in `unit`: "usd" or "tokens"."""

    unit: str
    points: list[Point]
    unknown: list[Row]
    """Agents that solved a task with a model of unknown price, or with unknown tokens."""

    @property
    def best(self) -> list[Point]:
        return [point for point in self.points if point.best]


def frontier(rows: Sequence[Row], generalization: str = UNSEEN) -> Frontier | None:
    """Return the frontier of the ranked agents that use a model and have a speedup.

    In US dollars where the cost of one agent is known, else in tokens; None where neither is.
    """
    prefix = "" if generalization == SEEN else "unseen_"
    timed = [row for row in rows if row.rank and getattr(row, f"{prefix}speedup") is not None]
    models = [row for row in timed if row.agent.model or row.tokens is not None]
    for unit, name in COLUMNS.items():
        values = {row.agent.pk: getattr(row, name) for row in models}
        known = {agent: value for agent, value in values.items() if value is not None}
        if known:
            return Frontier(unit, *_points(models, known, prefix))
    return None


def _points(
    models: Sequence[Row], known: dict[int, float], prefix: str
) -> tuple[list[Point], list[Row]]:
    """Return the points of the agents in `known`, cheapest first, and the other agents."""
    found: list[Point] = []
    fastest = 0.0
    drawn = [row for row in models if row.agent.pk in known]
    for row in sorted(drawn, key=lambda r: (known[r.agent.pk], -getattr(r, f"{prefix}speedup"))):
        speedup, low, high = (getattr(row, prefix + end) for end in ("speedup", "low", "high"))
        found.append(Point(row, known[row.agent.pk], speedup, low, high, best=speedup > fastest))
        fastest = max(fastest, speedup)
    return found, [row for row in models if row.agent.pk not in known]
