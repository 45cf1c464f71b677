"""API of runs whose agent runs elsewhere: events, verdicts and the end."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Status
from ninja.throttling import AuthRateThrottle

from arena.accounts.auth import INGEST, signed_in
from arena.api.runs import router, visible_run
from arena.api.schemas import EventsIn, ProgressOut, RunOut, VerdictIn
from arena.api.submissions import RewardOut, reward_out, visible_submissions
from arena.runs import services
from arena.runs.models import Run
from arena.runs.services.external import Progress

__all__ = ["router"]

TAGS: list[Any] = ["agents of your own"]


class IngestThrottle(AuthRateThrottle):
    """Counts requests of agents that run elsewhere apart from others."""

    scope = "ingest"


@router.post(
    "/{run_id}/events",
    response=ProgressOut,
    auth=INGEST,
    throttle=[IngestThrottle("1200/m")],
    tags=TAGS,
)
def send_events(request: HttpRequest, run_id: str, body: EventsIn) -> Progress:
    """Record the next events of your agent; a batch may be sent again, and counts once.

    409 with `error.expected` if a number before `first` is missing.
    """
    events = [event.dict() for event in body.events]
    return services.ingest(visible_run(request, run_id), signed_in(request), body.first, events)


@router.post(
    "/{run_id}/verdicts",
    response={201: RewardOut},
    auth=INGEST,
    throttle=[IngestThrottle("600/m")],
    tags=TAGS,
)
def request_verdict(request: HttpRequest, run_id: str, body: VerdictIn) -> Status[dict[str, Any]]:
    """Submit the next round, judged on the public cases. Read its verdict at its `id`."""
    submission = services.request_verdict(
        visible_run(request, run_id), signed_in(request), body.source, body.note, body.round
    )
    [created] = visible_submissions(request, [submission.slug])
    return Status(201, reward_out(created))


@router.post("/{run_id}/finish", response=RunOut, auth=INGEST, tags=TAGS)
def finish_run(request: HttpRequest, run_id: str) -> Run:
    """End the work on a run: its best round gets the final verdict, which ranks."""
    run = services.finish_external_run(visible_run(request, run_id), signed_in(request))
    return visible_run(request, run.pk)
