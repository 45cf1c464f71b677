"""API operations of the leaderboard: the board and the records."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from arena.leaderboard.kernels.records import Record, records
from arena.leaderboard.ranking.boards import board, options, unknown
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.rankings import Row
from arena.runs.strict import derived

router = Router(tags=["leaderboard"])
MAX_RECORDS = 100


FiltersIn = derived(
    "FiltersIn",
    Filters,
    Schema,
    generalization=(Literal["seen", "unseen"], "unseen"),
    score=(
        Literal["speedup", "sol"],
        Field("speedup", description="`sol` ranks by the SOL score, up to the measured roofline."),
    ),
    task_set=(
        Literal["", "core", "all"],
        Field("", description="`core` by default, or `all` with a filter that selects tasks."),
    ),
    origin=(
        Literal["arena", "external", "all"],
        Field("arena", description="`external` are the agents that users bring."),
    ),
    holds=(
        Literal["", "right", "kept", "specialised"],
        Field("", description="Results by held-out sizes that alone count as solved."),
    ),
    judge=(str, Field("", description="A version of the judge: the newest with a rank.")),
)
RowOut = derived(
    "RowOut",
    Row,
    Schema,
    defaults=False,
    agent=(str, Field(validation_alias="agent.slug")),
    title=(str, Field(validation_alias="agent.title")),
    model=(str, Field(validation_alias="agent.model")),
    answered_by=(
        str,
        Field(
            validation_alias="agent.answered_by",
            description="Models that answered, where they are others than `model`.",
        ),
    ),
)


class Board(Schema):
    """The ranking of one device by one version of the judge, over a declared set of tasks.

    A rank needs judged runs on `needed` of the `size` tasks. `judges` are the versions that have
    results under these filters, the newest first.
    """

    filters: FiltersIn  # type: ignore[valid-type]
    unknown: list[str]
    size: int
    needed: int
    judges: list[str]
    rows: list[RowOut]  # type: ignore[valid-type]


@router.get("", response=Board)
def leaderboard(
    request: HttpRequest,
    filters: Query[FiltersIn],  # type: ignore[valid-type]
) -> dict[str, Any]:
    """Rank the agents on one device; see /methodology/#ranking.

    Without `hardware` it is the GPU with the most results, or the CPU where no GPU has any.
    `filters` name it, and the judge's version and the task set. `unknown` has a sentence for each
    filter whose value stands for nothing.
    """
    chosen = Filters(**dict(filters))
    found = board(chosen)
    return {
        "filters": asdict(found.filters),
        "unknown": unknown(chosen),
        "size": found.size,
        "needed": found.needed,
        "judges": [option.value for option in options(found.filters, "judge") if option.count],
        "rows": found.rows,
    }


@router.get("/tasks", response=list[str])
def tasks_of_board(
    request: HttpRequest,
    filters: Query[FiltersIn],  # type: ignore[valid-type]
) -> list[str]:
    """List the tasks that agents are ranked over with these filters."""
    return [task.slug for task in board(Filters(**dict(filters))).sorted_tasks]


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
    unseen_speedup: float = Field(validation_alias="run.unseen_speedup")
    unseen_low: float | None = Field(validation_alias="run.unseen_low")
    unseen_high: float | None = Field(validation_alias="run.unseen_high")
    judge_version: str = Field(validation_alias="run.judge_version")
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

    `beaten` is the held-out speedup of the previous record over the baseline, `gain` the speed over
    it; `until` is null for a current record.
    """
    return records(**filters.dict())
