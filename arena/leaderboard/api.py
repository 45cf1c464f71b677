"""API operations of the leaderboard: the board and the records."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from arena.leaderboard.rankings import Filters, Row, rank
from arena.leaderboard.records import Record, records
from arena.runs.models import Run
from arena.runs.strict import derived

router = Router(tags=["leaderboard"])
MAX_RECORDS = 100


FiltersIn = derived(
    "FiltersIn", Filters, Schema, generalization=(Literal["seen", "unseen", "gap"], "seen")
)
RowOut = derived(
    "RowOut",
    Row,
    Schema,
    defaults=False,
    agent=(str, Field(validation_alias="agent.slug")),
    title=(str, Field(validation_alias="agent.title")),
)


class Board(Schema):
    filters: FiltersIn  # type: ignore[valid-type]
    rows: list[RowOut]  # type: ignore[valid-type]


@router.get("", response=Board)
def leaderboard(
    request: HttpRequest,
    filters: Query[FiltersIn],  # type: ignore[valid-type]
) -> dict[str, Any]:
    """List agents by share of tasks passed, then by geomean speedup; see /methodology/."""
    chosen = Filters(**dict(filters))
    return {"filters": asdict(chosen), "rows": rank(chosen)}


class RecordsIn(Schema):
    task: str = ""
    category: str = ""
    track: str = ""
    hardware: str = ""
    agent: str = ""
    limit: int = Field(MAX_RECORDS, ge=1, le=MAX_RECORDS)


class RecordOut(Schema):
    run: str = Field(validation_alias="run.pk")
    round: int | None
    task: str = Field(validation_alias="run.task_version.task.slug")
    task_hash: str = Field(validation_alias="run.task_version.content_hash")
    hardware: str = Field(validation_alias="run.hardware.slug")
    agent: str = Field(validation_alias="run.agent.slug")
    speedup: float = Field(validation_alias="run.speedup")
    low: float | None = Field(validation_alias="run.low")
    high: float | None = Field(validation_alias="run.high")
    unseen_speedup: float | None = Field(validation_alias="run.unseen_speedup")
    roofline_share: float | None = Field(validation_alias="run.roofline_share")
    beaten: float
    gain: float
    since: datetime = Field(validation_alias="run.ended_at")
    until: datetime | None

    @staticmethod
    def resolve_round(record: Record) -> int | None:
        return record.run.final.round if record.run.final else None


@router.get("/records", response=list[RecordOut])
def newest_records(request: HttpRequest, filters: Query[RecordsIn]) -> list[Record]:
    """List speed records, newest first; see /methodology/#records.

    `beaten` is the previous record as a speedup over the baseline, `gain` the speed over it;
    `until` is null for a current record.
    """
    runs = Run.objects.matching(**filters.dict(exclude={"limit", "agent"}))
    return records(runs, filters.limit, filters.agent)
