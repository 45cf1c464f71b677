"""Archive of traces: events of old runs, and the full texts that events cut, in the store of texts.

A page says that a trace is archived; the API reads it as before.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

from django.db import transaction
from django.utils import timezone

from arena.runs import traffic
from arena.runs.archived import ArchivedTrace
from arena.runs.models import Blob, Event, Run
from arena.runs.spending import Spending, spending
from arena.runs.states import RUN_ACTIVE
from arena.runs.trace import store

BATCH = 100
MAX_KEPT, MAX_KEPT_BYTES = 4, 16 * 2**20
"""Archived traces that a process keeps unpacked, and the most bytes of one of them."""
COLUMNS = ("seq", "rev", "t_ms", "kind", "span", "parent", "actor", "body")
"""Fields of an event that have the same name in its envelope."""
RESTORED = "archive"
"""Producer of events that come back from the archive, which does not name machines."""


def archive_old(days: float) -> Iterator[Run]:
    """Archive the traces of the runs that ended more than `days` ago, and yield each run.

    A run that another continues goes after that one, which may still replay its traffic.
    """
    limit = timezone.now() - timedelta(days=days)
    old = Run.objects.exclude(status__in=RUN_ACTIVE).filter(ended_at__lt=limit, archive=None)
    for pk in list(old.order_by("-ended_at").values_list("pk", flat=True)):
        if Run.objects.filter(continues=pk, archive=None).exists():
            continue
        run = Run.objects.get(pk=pk)
        if archive(run):
            yield run


def archive(run: Run) -> bool:
    """Store a run's trace and drop it from the database; False if an event came in between.

    The recorded traffic of its model goes, too: a run whose trace is archived is not continued.
    """
    text = "".join(lines(run))
    key = store.put(text)
    with transaction.atomic():
        now = Run.objects.select_for_update().get(pk=run.pk)
        if now.last_seq != run.last_seq or ArchivedTrace.objects.filter(pk=run.pk).exists():
            return False
        ArchivedTrace.objects.create(
            run=run,
            sha256=key,
            size=len(text.encode()),
            last_seq=run.last_seq,
            spent=asdict(spending(run.pk)),
        )
        Event.objects.filter(run=run).delete()
        traffic.forget([run.pk])
    return True


def restore(run: Run) -> int:
    """Bring the archived events of a run back into the database, and return their number."""
    with transaction.atomic():
        found = ArchivedTrace.objects.select_for_update().filter(pk=run.pk).first()
        if found is None:
            return 0
        events = list(_archived(found))
        Event.objects.bulk_create(events)
        found.delete()
    return len(events)


def move_blobs() -> int:
    """Move the texts of blobs to the store, and return the number of those that were moved."""
    count = 0
    here = Blob.objects.exclude(content="").order_by("pk")
    while batch := list(here[:BATCH]):
        for blob in batch:
            store.put(blob.content)
            Blob.objects.filter(pk=blob.pk).update(content="")
        count += len(batch)
    return count


def text_of(blob: Blob) -> str:
    """Return the text of a blob, wherever it lies. Raises store.Damaged."""
    return blob.content or store.get(blob.sha256)


def lines(run: Run) -> Iterator[str]:
    """Yield each event of a run as the API sends it, one a line."""
    for event in events_of(run):
        yield json.dumps(event.envelope()) + "\n"


def events_of(run: Run, first: int = 1) -> Iterator[Event]:
    """Yield the events of a run in order from seq `first` on, archived or not."""
    if archived := ArchivedTrace.objects.filter(pk=run.pk).first():
        yield from _archived(archived, first)
    yield from run.events.filter(seq__gte=first).order_by("seq").iterator()


def spent_by(archived: ArchivedTrace) -> Spending:
    return Spending(**archived.spent)


def _archived(archived: ArchivedTrace, first: int = 1) -> Iterator[Event]:
    """Yield the events of an archived trace from seq `first` on, as rows that are in no database.

    A client reads a trace page by page, so the last ones stay unpacked; they are found by their
    hash, so that none is out of date.
    """
    unpacked = _kept if archived.size <= MAX_KEPT_BYTES else _unpacked
    found = unpacked(archived.sha256)
    for line in islice(found, bisect_left(found, first, key=_seq_of), None):
        envelope: dict[str, Any] = json.loads(line)
        yield Event(
            run_id=archived.run_id,
            event_id=envelope["id"],
            at=datetime.fromisoformat(envelope["at"]),
            producer=RESTORED,
            **{name: envelope[name] for name in COLUMNS},
        )


def _unpacked(key: str) -> Sequence[str]:
    """Return the lines of a stored trace. Raises store.Damaged."""
    return store.get(key).splitlines()


_kept = lru_cache(maxsize=MAX_KEPT)(_unpacked)


def _seq_of(line: str) -> int:
    seq: int = json.loads(line)["seq"]
    return seq
