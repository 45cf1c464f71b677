"""The API of the leaderboard."""

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
    """Agents by share of tasks passed, then by geomean speedup of those; see /methodology/."""
    chosen = Filters(**filters.dict())
    return {"filters": asdict(chosen), "rows": rank(chosen)}


MOST_RECORDS = 100


class RecordsIn(Schema):
    task: str = ""
    category: str = ""
    track: str = ""
    hardware: str = ""
    agent: str = ""
    limit: int = Field(MOST_RECORDS, ge=1, le=MOST_RECORDS)


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
def newest_records(request: HttpRequest, narrowed: Query[RecordsIn]) -> list[dict[str, Any]]:
    """Who was the fastest on a task and a hardware, newest first; see /methodology/#records.

    `beaten` is the speedup over the baseline that stood before, `gain` how many times as fast this
    one was; `until` is null while it stands.
    """
    chosen = narrowed.dict()
    limit, agent = chosen.pop("limit"), chosen.pop("agent")
    return [RecordOut.of(each) for each in records(Run.objects.matching(**chosen), limit, agent)]
