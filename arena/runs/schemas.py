"""API schemas of runs, submissions and verdicts; no field shows anything hidden."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, StrictInt

from arena.runs.models import Evaluation, Measurement, Run, Scores, Submission
from arena.runs.states import RunStatus
from arena.runs.strict import derived
from arena.runs.waiting import Waiting, waiting_of
from arena.text import Text
from evaluation import types


def _statuses(text: str) -> str:
    if unknown := [name for name in text.split(",") if name not in ("", *RunStatus.values)]:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(RunStatus.values)}.")
    return text


def _interval(scores: Scores, prefix: str = "") -> dict[str, float | None] | None:
    """Return the fields of an `Interval` of these scores; None without a speedup."""
    numbers = {name: getattr(scores, prefix + name) for name in Interval.model_fields}
    return numbers if numbers["speedup"] is not None else None


class RunIn(Schema, extra="forbid"):
    task: Text = Field(examples=["rms_norm/cpp-to-cpp"])
    agent: Text = Field(examples=["tuner"])
    hardware: Text | None = None
    budget: dict[str, StrictInt] | None = Field(None, examples=[{"rounds": 12, "seconds": 300}])
    label: Text = Field("", max_length=100)
    visibility: Literal["public", "owner", "staff"] = "public"


class Interval(Schema):
    speedup: float
    low: float | None
    high: float | None


class ScoresOut(Schema):
    """Summary of a verdict."""

    seen: Interval | None
    unseen: Interval | None
    roofline_share: float | None

    @staticmethod
    def resolve_seen(scores: Scores) -> dict[str, float | None] | None:
        return _interval(scores)

    @staticmethod
    def resolve_unseen(scores: Scores) -> dict[str, float | None] | None:
        return _interval(scores, "unseen_")


class RunOut(ScoresOut):
    id: str
    task: str = Field(validation_alias="task_version.task.slug")
    task_version: str = Field(validation_alias="task_version.content_hash")
    agent: str = Field(validation_alias="agent.slug")
    hardware: str = Field(validation_alias="hardware.slug")
    owner: str | None
    label: str
    repeat: int
    experiment: str | None
    visibility: str
    status: str
    reason: str
    fault: str
    budget: dict[str, Any]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    seconds: float | None
    rounds: int
    last_seq: int
    cost_usd: float | None
    tokens: int | None
    imported_at: datetime | None
    imported_from: str
    continues: str | None = Field(validation_alias="continues_id", description="A broken run.")

    @staticmethod
    def resolve_owner(run: Run) -> str | None:
        return run.owner.get_username() if run.owner else None

    @staticmethod
    def resolve_experiment(run: Run) -> str | None:
        return run.experiment.slug if run.experiment else None


class EvaluationOut(ScoresOut):
    scope: str
    status: str
    verdict: str
    reason: str
    message: str
    hardware: str = Field(validation_alias="hardware.slug")
    judge_version: str
    noisy: bool
    aka_score: float | None
    ended_at: datetime | None


class SubmissionOut(Schema):
    id: str = Field(validation_alias="slug", description="Of /submissions/{id}/reward.")
    round: int
    content_hash: str
    note: str
    created_at: datetime
    evaluations: list[EvaluationOut]


WaitingOut = derived("WaitingOut", Waiting, Schema, reason=(str, ...))


class RunStarted(RunOut):
    waiting: WaitingOut | None  # type: ignore[valid-type]

    @staticmethod
    def resolve_waiting(run: Run) -> Waiting | None:
        return waiting_of(run)


class RunDetail(RunStarted):
    continued_by: str | None = Field(description="The run that continues this one.")
    submissions: list[SubmissionOut]

    @staticmethod
    def resolve_continued_by(run: Run) -> str | None:
        return Run.objects.filter(continues=run).values_list("pk", flat=True).first()

    @staticmethod
    def resolve_submissions(run: Run) -> list[Submission]:
        rounds = run.submissions.defer("files").prefetch_related("evaluations__hardware")
        return list(rounds)


GateOut = derived(
    "GateOut",
    types.GateResult,
    Schema,
    omit=("private", "compiler", "measurements"),
    defaults=False,
    reason=(str, ...),
)
MeasurementOut = derived(
    "MeasurementOut",
    types.Measurement,
    Schema,
    omit=("split", "blocks"),
    defaults=False,
    symbols=(dict[str, Any], ...),
    gbps=(float | None, ...),
    tflops=(float | None, ...),
    roofline_share=(float | None, ...),
)


class JudgedOut(EvaluationOut):
    """A verdict with its gates, and the measurements of the seen cases."""

    fingerprint: dict[str, Any]
    gates: list[GateOut]  # type: ignore[valid-type]
    measurements: list[MeasurementOut]  # type: ignore[valid-type]

    @staticmethod
    def resolve_measurements(evaluation: Evaluation) -> list[Measurement]:
        return list(evaluation.measurements.public())


class SubmissionDetail(SubmissionOut):
    files: dict[str, str]
    evaluations: list[JudgedOut]  # type: ignore[assignment]  # a narrower list


class Page(Schema):
    runs: list[RunOut]
    next_cursor: str | None


class RunFilters(Schema):
    task: Text | None = Field(None, description="`operator` or `operator/track`.")
    agent: Text | None = None
    hardware: Text | None = None
    status: Annotated[str, AfterValidator(_statuses)] | None = Field(
        None, description=f"One or several of {', '.join(RunStatus.values)}, comma separated."
    )
    experiment: Text | None = None


class EventsOut(Schema):
    events: list[dict[str, Any]]
    last_seq: int
    status: str
    more: bool
