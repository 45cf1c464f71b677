"""The API of the leaderboard."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema

from arena.leaderboard.rankings import Filters, Row, rank

router = Router(tags=["leaderboard"])


class FiltersIn(Schema):
    hardware: str = ""
    category: str = ""
    track: str = ""
    family: str = ""
    generalization: Literal["seen", "unseen", "gap"] = "seen"
    since: date | None = None
    until: date | None = None


class RowOut(Schema):
    rank: int | None
    band: int | None
    agent: str
    title: str
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

    @staticmethod
    def resolve_agent(row: Row) -> str:
        return row.agent.slug

    @staticmethod
    def resolve_title(row: Row) -> str:
        return row.agent.title


class Board(Schema):
    filters: FiltersIn
    rows: list[RowOut]


@router.get("", response=Board)
def leaderboard(request: HttpRequest, filters: Query[FiltersIn]) -> dict[str, Any]:
    """Agents by share of tasks passed, then by geomean speedup of those; see /methodology/."""
    chosen = Filters(**filters.dict())
    return {"filters": asdict(chosen), "rows": rank(chosen)}
