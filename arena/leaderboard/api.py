"""API operations of the leaderboard: the board and the records."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from arena.leaderboard.rankings import Filters, Row, rank
from arena.leaderboard.records import Record, records
from arena.runs.models import Run

router = Router(tags=["leaderboard"])


class FiltersIn(Schema):
    hardware: str = ""
    category: str = ""
    track: str = ""
    family: str = ""
    experiment: str = ""
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
    """List agents by share of tasks passed, then by geomean speedup; see /methodology/."""
    chosen = Filters(**filters.dict())
    return {"filters": asdict(chosen), "rows": rank(chosen)}


MAX_RECORDS = 100


class RecordsIn(Schema):
    task: str = ""
    category: str = ""
    track: str = ""
    hardware: str = ""
    agent: str = ""
    limit: int = Field(MAX_RECORDS, ge=1, le=MAX_RECORDS)


class RecordOut(Schema):
    run: str
    round: int | None
    task: str
    task_hash: str
    hardware: str
    agent: str
    speedup: float
    low: float | None
    high: float | None
    unseen_speedup: float | None
    roofline_share: float | None
    beaten: float
    gain: float
    since: datetime
    until: datetime | None

    @staticmethod
    def of(record: Record) -> dict[str, Any]:
        run = record.run
        return {
            "run": run.pk,
            "round": run.final and run.final.round,
            "task": run.task_version.task.slug,
            "task_hash": run.task_version.content_hash,
            "hardware": run.hardware.slug,
            "agent": run.agent.slug,
            **run.scores(),
            "beaten": record.beaten,
            "gain": record.gain,
            "since": run.ended_at,
            "until": record.until,
        }


@router.get("/records", response=list[RecordOut])
def newest_records(request: HttpRequest, filters: Query[RecordsIn]) -> list[dict[str, Any]]:
    """List speed records, newest first; see /methodology/#records.

    `beaten` is the previous record as a speedup over the baseline, `gain` the speed over it;
    `until` is null for a current record.
    """
    chosen = filters.dict()
    limit, agent = chosen.pop("limit"), chosen.pop("agent")
    return [RecordOut.of(each) for each in records(Run.objects.matching(**chosen), limit, agent)]
