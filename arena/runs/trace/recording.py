"""Recording of events: numbered without gaps, each once, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from arena import sockets
from arena.runs.models import Blob, Event, Run
from arena.runs.trace.blobs import shrink
from arena.runs.trace.events import EventDraft, checked_body
from arena.runs.trace.redaction import clean

SYSTEM = "arena"


@dataclass(frozen=True)
class Prepared:
    """A draft with its body as it is stored, and the blobs of what is cut from it."""

    draft: EventDraft
    body: dict[str, Any]
    blobs: list[Blob]


def record(run_id: str, drafts: Sequence[EventDraft], *, producer: str) -> int:
    """Append `drafts` to a run's events and return its last seq.

    A draft that is stored already (same producer and producer_seq) is skipped, so that a batch can
    be sent again.

    Raises: BadEvent if a body does not fit its kind; Run.DoesNotExist.
    """
    return record_prepared(run_id, prepare(drafts), producer=producer)


def prepare(drafts: Iterable[EventDraft]) -> list[Prepared]:
    """Redact and shrink drafts. It takes time, so that it belongs before a lock of the database.

    Raises: BadEvent if a body does not fit its kind.
    """
    return [Prepared(draft, *shrink(clean(checked_body(draft)))) for draft in drafts]


def record_prepared(run_id: str, prepared: Sequence[Prepared], *, producer: str) -> int:
    """Append prepared drafts like `record`."""
    drafts = [each.draft for each in prepared]
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=run_id)
        known = _known_numbers(run, drafts, producer)
        revisions = _revisions(run, drafts)
        now = timezone.now()
        events: list[Event] = []
        blobs: list[Blob] = []
        for each in prepared:
            draft = each.draft
            if draft.producer_seq is not None:
                if draft.producer_seq in known:
                    continue
                known.add(draft.producer_seq)
            seq = run.last_seq + len(events) + 1
            event_id = draft.id or f"#{seq}"
            rev = max(draft.rev, revisions.get(event_id, -1) + 1)
            revisions[event_id] = rev
            blobs += each.blobs
            events.append(
                Event(
                    run=run,
                    seq=seq,
                    event_id=event_id,
                    rev=rev,
                    at=now,
                    t_ms=_run_clock(run, now),
                    kind=draft.kind,
                    span=draft.span,
                    parent=draft.parent,
                    actor=draft.actor,
                    body=each.body,
                    producer=producer,
                    producer_seq=draft.producer_seq,
                )
            )
        if not events:
            return run.last_seq
        Blob.objects.bulk_create(blobs, ignore_conflicts=True)
        Event.objects.bulk_create(events)
        Run.objects.filter(pk=run.pk).update(last_seq=events[-1].seq)
        sockets.nudge(sockets.run_group(run.pk))
        return events[-1].seq


def note(run_id: str, kind: str, body: dict[str, Any], **more: Any) -> int:
    """Record one event of the arena itself."""
    return record(run_id, [EventDraft(kind, body, actor=SYSTEM, **more)], producer=SYSTEM)


def _known_numbers(run: Run, drafts: Iterable[EventDraft], producer: str) -> set[int | None]:
    sent = [draft.producer_seq for draft in drafts if draft.producer_seq is not None]
    if not sent:
        return set()
    stored = Event.objects.filter(run=run, producer=producer, producer_seq__in=sent)
    return set(stored.values_list("producer_seq", flat=True))


def _revisions(run: Run, drafts: Iterable[EventDraft]) -> dict[str, int]:
    """Return the highest stored revision of each logical event that `drafts` name."""
    ids = {draft.id for draft in drafts if draft.id}
    if not ids:
        return {}
    stored = Event.objects.filter(run=run, event_id__in=ids).values_list("event_id")
    return dict(stored.annotate(Max("rev")).order_by())


def _run_clock(run: Run, now: datetime) -> int:
    """Return the milliseconds since the run started; 0 while it is queued."""
    if run.started_at is None:
        return 0
    return max(0, int((now - run.started_at).total_seconds() * 1000))
