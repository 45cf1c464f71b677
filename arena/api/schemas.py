"""API schemas of runs, submissions and verdicts; no field shows anything hidden."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, StrictFloat, StrictInt

from arena.notes.models import Note
from arena.runs.display.waiting import Waiting, waiting_of
from arena.runs.models import Evaluation, Measurement, Run, Submission
from arena.runs.scores import Scores
from arena.runs.services.external import MAX_BATCH
from arena.runs.states import RunStatus
from arena.runs.strict import derived
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


class ExternalAgent(Schema, extra="forbid"):
    """An agent of your own, which runs elsewhere."""

    name: Text = Field(min_length=1, max_length=60, examples=["hill-climber"])
    model: Text = Field("", max_length=100, description="The model that it calls, if any.")


class BudgetIn(Schema, extra="forbid"):
    """Limits of a run; what is left out has its default, or no limit."""

    rounds: StrictInt | None = None
    seconds: StrictInt | None = None
    turns: StrictInt | None = Field(None, description="Calls of the model.")
    tokens: StrictInt | None = None
    usd: StrictFloat | None = Field(None, description="US dollars for the model.")

    def limits(self) -> dict[str, float]:
        """Return the limits that are named."""
        return self.model_dump(exclude_none=True)


class RunIn(Schema, extra="forbid"):
    task: Text = Field(examples=["rms_norm/cpp-to-cpp"])
    agent: Text | None = Field(
        None, examples=["tuner"], description="An agent of this arena; needs the scope `run`."
    )
    external: ExternalAgent | None = Field(
        None, description="Instead of `agent`: one of your own; needs the scope `ingest`."
    )
    hardware: Text | None = None
    budget: BudgetIn | None = Field(None, examples=[{"rounds": 12, "seconds": 300}])
    label: Text = Field("", max_length=100)
    visibility: Literal["public", "owner", "staff"] = Field(
        "public", description="`staff` is for staff: its owner could not see the run."
    )


class EventIn(Schema, extra="forbid"):
    """An event of an agent; see docs/client.md for the kinds and their bodies."""

    kind: str = Field(examples=["message"])
    body: dict[str, Any] = Field(
        examples=[{"role": "assistant", "text": "The loop is memory bound."}],
        description="A NUL and a lone surrogate in its texts are replaced.",
    )
    id: str = Field("", description="Begins with `agent-`; a later event replaces an earlier one.")
    span: str = ""
    parent: str = ""
    rev: StrictInt = 0


class EventsIn(Schema, extra="forbid"):
    first: Annotated[StrictInt, Field(ge=1, le=10**6)] = Field(
        description="Number of the first event; the first of a run is 1, and none is left out."
    )
    events: list[EventIn] = Field(max_length=MAX_BATCH, description="No event is a sign of life.")


class ProgressOut(Schema):
    next: int = Field(description="Number of the event to send next.")
    status: str
    last_seq: int
    rounds_left: int
    seconds_left: float = Field(description="Time with a pending verdict does not count.")


class VerdictIn(Schema, extra="forbid"):
    source: Text = Field(min_length=1, description="Text of the task's target file.")
    note: Text = Field("", max_length=1000)
    round: Annotated[StrictInt, Field(ge=1, le=1000)] | None = Field(
        None, description="Its number, so that a request can be sent again."
    )


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
    judge_version: str = Field(description="Of its verdict; figures of others are not comparable.")
    noisy: bool = Field(description="The interval of a case stayed wide.")
    seconds: float | None
    rounds: int
    last_seq: int
    cost_usd: float | None
    tokens: int | None
    answered_by: str = Field(
        description="Models that answered, where they are others than its agent's; set at its end."
    )
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


class NoteOut(Schema):
    seq: int | None = Field(description="The event that it is on; null for the run.")
    mark: Literal["clean", "leak", "reward_hack", "interesting", "bug"]
    quote: str
    text: str
    author: str
    created_at: datetime

    @staticmethod
    def resolve_author(note: Note) -> str:
        return note.author.get_username()


class RunDetail(RunStarted):
    continued_by: str | None = Field(description="The run that continues this one.")
    archived_at: datetime | None = Field(
        description="When its trace left the database; its events are read as before, slower."
    )
    notes: list[NoteOut] = Field(description="Marks of staff on the run and its events.")
    submissions: list[SubmissionOut]

    @staticmethod
    def resolve_notes(run: Run) -> list[Note]:
        return list(run.notes.of_staff().select_related("author"))

    @staticmethod
    def resolve_archived_at(run: Run) -> datetime | None:
        return run.archive.archived_at if hasattr(run, "archive") else None

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
    task: str | None = Field(None, description="`operator` or `operator/track`.")
    agent: str | None = None
    hardware: str | None = None
    status: Annotated[str, AfterValidator(_statuses)] | None = Field(
        None, description=f"One or several of {', '.join(RunStatus.values)}, comma separated."
    )
    experiment: str | None = None


class EventsOut(Schema):
    events: list[dict[str, Any]]
    last_seq: int
    status: str
    more: bool
