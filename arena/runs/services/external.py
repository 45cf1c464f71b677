"""Runs of agents that run elsewhere: they send their events, and request verdicts, by the API.

The budget is kept here: after each request and by the reaper, a run beyond it gets its final
verdict. So does one whose agent is silent for `SILENCE`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Max, QuerySet
from django.db.models.functions import Now

from arena.accounts.models import User
from arena.catalog.services import external_agent
from arena.errors import Conflict, Forbidden, Gap, Invalid, TooLarge, UserError
from arena.leases import database_time
from arena.runs.models import Evaluation, Event, Run, Submission
from arena.runs.quotas import FINALS, check_day, check_trace, lock_owner
from arena.runs.scoring.best import chosen_round, end_without_final
from arena.runs.services.evaluations import request_evaluation, rounds_spent, submit
from arena.runs.services.runs import (
    check_quota,
    check_visibility,
    checked_budget,
    end_run,
    find_hardware,
    kinds_of,
    record_status,
    task_version,
)
from arena.runs.spending import spending
from arena.runs.states import EVALUATION_ACTIVE, EvaluationStatus, Fault, RunStatus, Scope
from arena.runs.trace.agent_events import agent_event
from arena.runs.trace.events import BadEvent
from arena.runs.trace.recording import note, prepare, record_prepared
from evaluation.types import Verdict

SILENCE = timedelta(minutes=5)
"""Time without a request after which a run ends."""
PRODUCER = "external"
MAX_BATCH = 500
"""Events of one request."""
LIMITS = ("rounds", "seconds", "tokens", "usd")
"""Budgets that are kept here; turns are the agent's own matter."""


@dataclass(frozen=True)
class Room:
    """Limits on what one run records."""

    events: int = 20_000
    bytes: int = 64 << 20


ROOM = Room()


@dataclass(frozen=True)
class Progress:
    """The state of a run after a request: what to send next, and what is left of its budget."""

    next: int
    status: str
    last_seq: int
    rounds_left: int
    seconds_left: float


def start_external_run(
    *,
    owner: User,
    task_slug: str,
    name: str,
    model: str = "",
    hardware_slug: str | None = None,
    budget: Mapping[str, Any] | None = None,
    label: str = "",
    visibility: str,
) -> Run:
    """Start a run of the user's agent `name`; its time begins now.

    It counts as a final verdict of its user, which it gets when its work ends.

    Raises: QuotaExceeded; another UserError if it cannot run.
    """
    check_visibility(visibility, owner)
    version = task_version(task_slug)
    hardware = find_hardware(hardware_slug, kinds_of(version.task), "this task")
    if unknown := [limit for limit in budget or () if limit not in LIMITS]:
        raise UserError(f"Unknown budget {unknown[0]!r}.", f"One of {', '.join(LIMITS)}.")
    with transaction.atomic():
        lock_owner(owner)
        check_quota(owner)
        check_day(owner, FINALS)
        run = Run.objects.create_for(
            owner,
            task_version=version,
            agent=external_agent(owner, name, model),
            hardware=hardware,
            budget=checked_budget(budget),
            label=label[:100],
            visibility=visibility,
            status=RunStatus.RUNNING,
            started_at=database_time(),
        )
        record_status(run.pk, RunStatus.RUNNING)
    return run


def ingest(
    run: Run,
    user: User,
    first: int,
    events: Sequence[Mapping[str, Any]],
    room: Room = ROOM,
) -> Progress:
    """Record events that are numbered from `first` on; those that are stored already are skipped.

    No event keeps the run alive. Either all of a batch is stored or nothing.

    Raises: Gap if a number is missing before `first`; Invalid for an event that an agent may not
    record; TooLarge beyond the limits of a run, or of all runs of a user in a day; Conflict if the
    run has ended.
    """
    _check_owner(run, user)
    try:
        drafts = [agent_event(event, number) for number, event in enumerate(events, start=first)]
    except (BadEvent, TypeError) as error:
        raise Invalid(str(error), "Nothing of this batch was stored.") from error
    size = sum(len(json.dumps(event)) for event in events)
    known = max(_expected(run) - first, 0)
    _check_room(run, first + known, drafts[known:], size, room)
    if drafts[known:]:
        check_trace(user, size)
    prepared = prepare(drafts[known:])  # before the lock, for which others would wait
    with transaction.atomic():
        locked = _running(run)
        expected = _expected(run)
        if first > expected:
            raise Gap(f"Event {expected} is missing.", expected)
        new = prepared[max(expected - first, 0) - known :]
        if new:
            _check_room(locked, expected, new, size, room)
            record_prepared(run.pk, new, producer=PRODUCER)
            Run.objects.filter(pk=run.pk).update(received_bytes=F("received_bytes") + size)
        Run.objects.filter(pk=run.pk).update(heartbeat_at=Now())
    _end_if_spent(run)
    return progress(run)


def _check_room(run: Run, first: int, new: Sequence[object], size: int, room: Room) -> None:
    """Raise `TooLarge` if new events, numbered from `first` on, exceed the limits of a run."""
    if new and (first - 1 + len(new) > room.events or run.received_bytes + size > room.bytes):
        raise TooLarge(
            f"A run takes {room.events:,} events and {room.bytes >> 20} MiB.",
            "Finish it, or go on without events.",
        )


def request_verdict(
    run: Run, user: User, source: str, note_text: str = "", number: int | None = None
) -> Submission:
    """Submit the target file as the next round and request its verdict.

    With the `number` of the round, a request can be sent again: a round that exists with this
    source is returned.

    Raises: Conflict if a verdict is pending, the rounds are spent or the run has ended; Gap if
    `number` is not the next.
    """
    _check_owner(run, user)
    files = {run.task_version.public["target_file"]: source}
    with transaction.atomic():
        locked = _running(run)
        if number is not None and number <= locked.rounds:
            sent = run.submissions.get(round=number)
            if sent.files == files:
                return sent
            raise Gap(f"Round {number} is another source.", locked.rounds + 1)
        if number is not None and number > locked.rounds + 1:
            raise Gap(f"Round {locked.rounds + 1} is missing.", locked.rounds + 1)
        if spent := _spent(locked):
            raise Conflict(spent, "Finish the run: its best round gets the final verdict.")
        if _pending(locked).exists():
            raise Conflict(
                f"Round {locked.rounds} is not judged yet.",
                f"Read GET /api/v1/submissions/{run.pk}-{locked.rounds}/reward until it is.",
            )
        limit = locked.budget["rounds"]
        if rounds_spent(locked) >= limit:
            note(run.pk, "limit", {"name": "rounds", "limit": limit})
            raise Conflict(f"All {limit} rounds are spent.", "Finish the run.")
        submission = submit(run.pk, files, note_text)
        request_evaluation(submission, Scope.ROUND)
        Run.objects.filter(pk=run.pk).update(heartbeat_at=Now())
    return submission


def finish_external_run(run: Run, user: User) -> Run:
    """End the work on a run: its best round gets the final verdict. A second request does nothing.

    Raises: Conflict while a verdict is pending.
    """
    _check_owner(run, user)
    with transaction.atomic():
        locked = Run.objects.select_for_update().get(pk=run.pk)
        if locked.status == RunStatus.RUNNING:
            if _pending(locked).exists():
                raise Conflict(f"Round {locked.rounds} is not judged yet.", "Finish after it is.")
            _conclude(locked, "Nothing was submitted.")
    run.refresh_from_db()
    return run


def reap_external_runs() -> int:
    """Conclude the runs that are silent or beyond their budget; return their number."""
    ended = 0
    now = database_time()
    for run in Run.objects.external().filter(status=RunStatus.RUNNING).select_related("agent"):
        if _pending(run).exists():
            continue
        silent = now - max(run.heartbeat_at, _last_verdict_at(run) or run.heartbeat_at) > SILENCE
        reason = f"Its agent sent nothing for {SILENCE.seconds // 60} minutes." if silent else ""
        if reason or _spent(run):
            ended += _end_if_spent(run, reason)
    return ended


def progress(run: Run) -> Progress:
    """Return the state of a run for its agent."""
    run.refresh_from_db()
    return Progress(
        next=_expected(run),
        status=run.status,
        last_seq=run.last_seq,
        rounds_left=max(0, int(run.budget["rounds"]) - rounds_spent(run)),
        seconds_left=round(max(0.0, run.budget["seconds"] - _seconds(run)), 1),
    )


def _check_owner(run: Run, user: User) -> None:
    if not run.is_external:
        raise Conflict("The agent of this run runs here.", "Start a run of an agent of your own.")
    if run.owner_id != user.pk:
        raise Forbidden("Only its owner may send anything to this run.")


def _running(run: Run) -> Run:
    """Return the run, locked. Raises: Conflict unless it takes events and submissions."""
    locked = Run.objects.select_for_update().get(pk=run.pk)
    if locked.status != RunStatus.RUNNING:
        state = locked.get_status_display().lower()
        raise Conflict(f"This run takes nothing more: it is {state}.", "Start another run.")
    return locked


def _expected(run: Run) -> int:
    """Return the number of the event that comes next."""
    sent = Event.objects.filter(run=run.pk, producer=PRODUCER).aggregate(last=Max("producer_seq"))
    return int(sent["last"] or 0) + 1


def _pending(run: Run) -> QuerySet[Evaluation]:
    return Evaluation.objects.filter(submission__run=run, status__in=EVALUATION_ACTIVE)


def _last_verdict_at(run: Run) -> datetime | None:
    ended = Evaluation.objects.filter(submission__run=run).aggregate(last=Max("ended_at"))
    last: datetime | None = ended["last"]
    return last


def _seconds(run: Run) -> float:
    """Return the seconds of a run that count: those without a pending verdict."""
    now = database_time()
    waited = sum(
        ((ended or now) - created).total_seconds()
        for created, ended in Evaluation.objects.filter(submission__run=run).values_list(
            "created_at", "ended_at"
        )
    )
    begun = run.started_at or now
    return (now - begun).total_seconds() - waited


def _spent(run: Run) -> str:
    """Return the limit that a run has reached, as a sentence; empty for none."""
    budget = run.budget
    if _seconds(run) > budget["seconds"]:
        return f"Its {budget['seconds']:g} seconds are spent."
    if "tokens" in budget or "usd" in budget:
        found = spending(run.pk)
        if (found.tokens or 0) > budget.get("tokens", float("inf")):
            return f"Its {budget['tokens']:,} tokens are spent."
        if (found.cost_usd or 0.0) > budget.get("usd", float("inf")):
            return f"Its {budget['usd']:g} US dollars are spent."
    return ""


def _end_if_spent(run: Run, silent: str = "") -> bool:
    """Conclude a run that is silent or beyond its budget, and return whether it was.

    `silent` is the reason of a silent one. A pending verdict comes first.
    """
    with transaction.atomic():
        locked = Run.objects.select_for_update().get(pk=run.pk)
        if locked.status != RunStatus.RUNNING or _pending(locked).exists():
            return False
        if reason := silent or _spent(locked):
            note(run.pk, "limit", {"name": "silence" if silent else "budget", "text": reason})
            _conclude(locked, reason)
        return bool(reason)


def _conclude(run: Run, reason: str) -> None:
    """Request the final verdict on the best round, or end the run with a reason."""
    chosen = chosen_round(run)
    if chosen is not None:
        request_evaluation(chosen, Scope.FINAL)
        return
    running = {"status": RunStatus.RUNNING}
    rounds = Evaluation.objects.filter(submission__run=run, scope=Scope.ROUND)
    broken = rounds.filter(status=EvaluationStatus.BROKEN) | rounds.filter(verdict=Verdict.SKIPPED)
    last = broken.order_by("-pk").first()
    if last is not None:
        text = f"Round {last.submission.round} could not be judged: {last.message}"
        end_run(run.pk, running, RunStatus.BROKEN, text, Fault.ARENA)
    else:
        end_run(run.pk, running, *end_without_final(run, reason))
