"""The API of runs: list, start, one, cancel, and its events by cursor."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema, Status
from ninja.throttling import AuthRateThrottle

from arena.accounts.auth import RUN
from arena.errors import NotFound
from arena.runs import services
from arena.runs.models import Blob, Event, Run

router = Router(tags=["runs"])
MAX_EVENTS = 500


class RunIn(Schema):
    task: str = Field(examples=["rms_norm/cpp-to-cpp"])
    agent: str = Field(examples=["tuner"])
    hardware: str | None = None
    budget: dict[str, int] | None = Field(None, examples=[{"rounds": 12, "seconds": 300}])
    label: str = Field("", max_length=100)
    visibility: Literal["public", "owner", "staff"] = "public"


class Interval(Schema):
    speedup: float
    low: float | None
    high: float | None


class RunOut(Schema):
    id: str
    task: str
    task_version: str
    agent: str
    hardware: str
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
    seen: Interval | None
    unseen: Interval | None
    roofline_share: float | None
    cost_usd: float | None
    tokens: int | None

    @staticmethod
    def resolve_task(run: Run) -> str:
        return run.task_version.task.slug

    @staticmethod
    def resolve_task_version(run: Run) -> str:
        return run.task_version.content_hash

    @staticmethod
    def resolve_agent(run: Run) -> str:
        return run.agent.slug

    @staticmethod
    def resolve_hardware(run: Run) -> str:
        return run.hardware.slug

    @staticmethod
    def resolve_owner(run: Run) -> str | None:
        return run.owner.get_username() if run.owner else None

    @staticmethod
    def resolve_experiment(run: Run) -> str | None:
        return run.experiment.slug if run.experiment else None

    @staticmethod
    def resolve_seen(run: Run) -> dict[str, float | None] | None:
        return _interval(run.speedup, run.low, run.high)

    @staticmethod
    def resolve_unseen(run: Run) -> dict[str, float | None] | None:
        return _interval(run.unseen_speedup, run.unseen_low, run.unseen_high)


class Page(Schema):
    runs: list[RunOut]
    next_cursor: str | None


class RunFilters(Schema):
    task: str | None = Field(None, description="`operator` or `operator/track`.")
    agent: str | None = None
    hardware: str | None = None
    status: str | None = Field(None, description="One or several, comma separated.")
    experiment: str | None = None


class EventsOut(Schema):
    events: list[dict[str, Any]]
    last_seq: int
    status: str
    more: bool


@router.get("", response=Page)
def list_runs(
    request: HttpRequest,
    filters: Query[RunFilters],
    limit: int = Query(50, ge=1, le=200),
    cursor: str | None = None,
) -> dict[str, Any]:
    """Newest first. `cursor` is the `next_cursor` of the page before."""
    runs = Run.objects.visible_to(request.user).with_names().matching(**filters.dict())
    if cursor:
        last = _run(request, cursor)
        runs = runs.filter(
            Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, id__lt=last.id)
        )
    page = list(runs[: limit + 1])
    more = len(page) > limit
    return {"runs": page[:limit], "next_cursor": page[limit - 1].pk if more else None}


@router.post("", response={201: RunOut}, auth=RUN, throttle=[AuthRateThrottle("60/m")])
def create_run(request: HttpRequest, body: RunIn) -> Status[Run]:
    run = services.start_run(
        task_slug=body.task,
        agent_slug=body.agent,
        hardware_slug=body.hardware,
        owner=request.user,
        budget=body.budget,
        label=body.label,
        visibility=body.visibility,
    )
    return Status(201, run)


@router.get("/{run_id}", response=RunOut)
def get_run(request: HttpRequest, run_id: str) -> Run:
    return _run(request, run_id)


@router.post("/{run_id}/cancel", response=RunOut, auth=RUN)
def cancel_run(request: HttpRequest, run_id: str) -> Run:
    return services.cancel_run(_run(request, run_id), request.user)


@router.get("/{run_id}/events", response=EventsOut)
def list_events(
    request: HttpRequest,
    run_id: str,
    after: int | None = Query(None, ge=0),
    before: int | None = Query(None, ge=0),
    limit: int = Query(200, ge=1, le=MAX_EVENTS),
) -> dict[str, Any]:
    """Events in order: the first above `after`, or the last below `before`, or the newest."""
    run = _run(request, run_id)
    events = Event.objects.visible_to(request.user, run).filter(seq__lte=run.last_seq)
    if after is not None:
        found = list(events.filter(seq__gt=after).order_by("seq")[: limit + 1])
        page = found[:limit]
    else:
        older = events if before is None else events.filter(seq__lt=before)
        found = list(older.order_by("-seq")[: limit + 1])
        page = found[:limit][::-1]
    return {
        "events": [event.envelope() for event in page],
        "last_seq": run.last_seq,
        "status": run.status,
        "more": len(found) > limit,
    }


@router.get("/{run_id}/events/{seq}/blob", openapi_extra={"responses": {200: {}}})
def get_blob(request: HttpRequest, run_id: str, seq: int, path: str = "") -> HttpResponse:
    """The whole of a text that the event keeps the ends of; `path` is a key of `body.blobs`."""
    event = Event.objects.visible_to(request.user, _run(request, run_id)).filter(seq=seq).first()
    kept = event.body.get("blobs", {}).get(path) if event else None
    blob = Blob.objects.filter(pk=kept["sha256"]).first() if kept else None
    if blob is None:
        raise NotFound("This event keeps no such text.")
    return HttpResponse(blob.content, content_type="text/plain; charset=utf-8")


def _run(request: HttpRequest, run_id: str) -> Run:
    run = Run.objects.visible_to(request.user).with_names().filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"There is no run {run_id!r} that you may see.")
    return run


def _interval(
    speedup: float | None, low: float | None, high: float | None
) -> dict[str, float | None] | None:
    return None if speedup is None else {"speedup": speedup, "low": low, "high": high}
