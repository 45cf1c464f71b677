"""API of runs: list, start, read and cancel runs, and read their events."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Status
from ninja.throttling import AuthRateThrottle

from arena.accounts.auth import CANCEL, RUN, START, require_scope, scopes_of, signed_in
from arena.accounts.models import Scope
from arena.api.schemas import (
    EventsOut,
    Page,
    RunDetail,
    RunFilters,
    RunIn,
    RunOut,
    RunStarted,
    SubmissionDetail,
)
from arena.audit.services import record_of_staff
from arena.catalog.models import Hardware, Task
from arena.errors import Invalid, NotFound
from arena.runs import agents, services
from arena.runs.models import Blob, Event, Run, Submission
from arena.runs.trace import retention

router = Router(tags=["runs"])
MAX_EVENTS = 500


@router.get("", response=Page)
def list_runs(
    request: HttpRequest,
    filters: Query[RunFilters],
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> dict[str, Any]:
    """List runs, newest first. `cursor` is the `next_cursor` of the page before."""
    known = [*RunFilters.model_fields, "limit", "cursor"]
    if unknown := [name for name in request.GET if name not in known]:
        raise Invalid(f"There is no parameter {unknown[0]!r}.", f"One of {', '.join(known)}.")
    _check_names(request, filters)
    runs = Run.objects.visible_to(request.user).with_names().matching(**filters.dict())
    if cursor:
        last = visible_run(request, cursor)
        runs = runs.filter(
            Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, id__lt=last.id)
        )
    page = list(runs[: limit + 1])
    more = len(page) > limit
    return {"runs": page[:limit], "next_cursor": page[limit - 1].pk if more else None}


@router.post("", response={201: RunStarted}, auth=START, throttle=[AuthRateThrottle("60/m")])
def create_run(request: HttpRequest, body: RunIn) -> Status[Run]:
    """Queue a run of an agent of this arena, or start one of an agent of your own.

    `waiting` names the queue, and says whether a worker serves it.
    """
    if (body.agent is None) == (body.external is None):
        raise Invalid("Name either `agent` or `external`.", "`external` is an agent of your own.")
    common: dict[str, Any] = {
        "task_slug": body.task,
        "hardware_slug": body.hardware,
        "owner": signed_in(request),
        "budget": body.budget and body.budget.limits(),
        "label": body.label,
        "visibility": body.visibility,
    }
    if body.external is not None:
        require_scope(scopes_of(request), Scope.INGEST)
        own = body.external
        run = services.start_external_run(**common, name=own.name, model=own.model)
    else:
        require_scope(scopes_of(request), Scope.RUN)
        run = services.start_run(**common, agent_slug=str(body.agent))
    record_of_staff(signed_in(request), "run.start", run)
    return Status(201, run)


@router.get("/{run_id}", response=RunDetail)
def get_run(request: HttpRequest, run_id: str) -> Run:
    return visible_run(request, run_id)


@router.post("/{run_id}/cancel", response=RunOut, auth=CANCEL)
def cancel_run(request: HttpRequest, run_id: str) -> Run:
    return services.cancel_run(visible_run(request, run_id), signed_in(request))


@router.post("/{run_id}/continue", response={201: RunStarted}, auth=RUN)
def continue_run(request: HttpRequest, run_id: str) -> Status[Run]:
    """Continue a broken run as a new one, which replays what its model has already answered."""
    return Status(201, services.continue_run(visible_run(request, run_id), signed_in(request)))


@router.get("/{run_id}/submissions/{number}", response=SubmissionDetail)
def get_submission(request: HttpRequest, run_id: str, number: int) -> Submission:
    """Return a submission with its gates and the measurements of the seen cases."""
    submission = visible_run(request, run_id).submissions.filter(round=number).first()
    if submission is None:
        raise NotFound(f"This run has no round {number}.", "See its `submissions`.")
    return submission


@router.get("/{run_id}/events", response=EventsOut)
def list_events(
    request: HttpRequest,
    run_id: str,
    after: Annotated[int, Field(ge=0)] | None = None,
    before: Annotated[int, Field(ge=0)] | None = None,
    limit: Annotated[int, Field(ge=1, le=MAX_EVENTS)] = 200,
) -> dict[str, Any]:
    """List events in order: the first above `after`, the last below `before`, or the newest."""
    run = visible_run(request, run_id)
    events = run.events.filter(seq__lte=run.last_seq)
    if hasattr(run, "archive"):
        page, more = _page_of_archive(run, after, before, limit)
    elif after is not None:
        found = list(events.filter(seq__gt=after).order_by("seq")[: limit + 1])
        page, more = found[:limit], len(found) > limit
    else:
        older = events if before is None else events.filter(seq__lt=before)
        found = list(older.order_by("-seq")[: limit + 1])
        page, more = found[:limit][::-1], len(found) > limit
    return {
        "events": [event.envelope() for event in page],
        "last_seq": run.last_seq,
        "status": run.status,
        "more": more,
    }


@router.get("/{run_id}/events/{seq}/blob", openapi_extra={"responses": {200: {}}})
def get_blob(request: HttpRequest, run_id: str, seq: int, path: str = "") -> HttpResponse:
    """Return the full text of a cut value; `path` is a key of `body.blobs`."""
    run = visible_run(request, run_id)
    event = next((each for each in retention.events_of(run, seq) if each.seq == seq), None)
    kept = event.body.get("blobs", {}).get(path) if event else None
    blob = Blob.objects.filter(pk=kept["sha256"]).first() if kept else None
    if blob is None:
        raise NotFound("This event keeps no such text.", "`path` is a key of its `body.blobs`.")
    return HttpResponse(retention.text_of(blob), content_type="text/plain; charset=utf-8")


def _page_of_archive(
    run: Run, after: int | None, before: int | None, limit: int
) -> tuple[list[Event], bool]:
    """Return a page of events of a run whose trace is archived, and whether there are more."""
    if after is not None:
        found = list(islice(retention.events_of(run, after + 1), limit + 1))
        return found[:limit], len(found) > limit
    events = retention.events_of(run)
    found = [event for event in events if before is None or event.seq < before]
    return found[-limit:], len(found) > limit


def _check_names(request: HttpRequest, filters: RunFilters) -> None:
    """Raise Invalid for a filter that names nothing, which would return an empty list."""
    operator, _, track = (filters.task or "").partition("/")
    tasks = Task.objects.visible_to(request.user).filter(operator__slug=operator)
    listed = {
        "task": tasks.filter(track=track) if track else tasks,
        "agent": agents.visible_to(request.user).filter(slug=filters.agent),
        "hardware": Hardware.objects.filter(slug=filters.hardware),
    }
    for name, found in listed.items():
        if (asked := getattr(filters, name)) and not found.exists():
            plural = name if name == "hardware" else f"{name}s"
            raise Invalid(f"There is no {name} {asked!r}.", f"See GET /api/v1/{plural}.")


def visible_run(request: HttpRequest, run_id: str) -> Run:
    visible = Run.objects.visible_to(request.user).with_names().select_related("archive")
    run = visible.filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"There is no run {run_id!r} that you may see.", "See GET /api/v1/runs.")
    return run
