"""The rows of a trace: each logical event once, where it first stood, as it is now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import F, IntegerField, Max, Min, OuterRef, Subquery, TextField
from django.db.models.functions import Cast

from arena.runs.models import Event
from arena.runs.querysets import EventQuerySet

CHUNK = 200
OUTLINE = 1000
FOUND = 200
OUTLINED = ("span_begin", "gate_result")
KEPT_APART = ("status",)  # a change of state is history: a later one does not undo it
UNNAMED = "#"  # ids that were given to events without one; nothing revises those


@dataclass(frozen=True)
class Entry:
    """One row: the newest revision of an event, at the seq where the event first appeared."""

    seq: int
    event: Event

    @property
    def templates(self) -> list[str]:
        """The template of this kind of event, or the one for kinds that have none."""
        return [f"runs/events/{self.event.kind}.html", "runs/events/other.html"]

    @property
    def label(self) -> str:
        span = self.event.body.get("span_kind", "")
        names = {"span_begin": span, "span_end": f"{span} ends", "compiler_output": "compiler"}
        return names.get(self.event.kind) or self.event.kind.replace("_", " ")

    @property
    def bad(self) -> bool:
        body = self.event.body
        return body.get("ok") is False or body.get("verdict") in ("failed", "rejected", "broken")

    @property
    def minor(self) -> bool:
        """Spans that nest inside a turn are drawn lighter."""
        return self.event.body.get("span_kind") not in ("turn", "submission")


@dataclass(frozen=True)
class Chunk:
    """The rows whose first seq lies in one stretch of CHUNK numbers."""

    number: int
    entries: list[Entry]


def chunk_of(seq: int) -> int:
    """The chunk that holds this seq; seqs begin at 1."""
    return max(seq - 1, 0) // CHUNK


def chunk(events: EventQuerySet, number: int) -> Chunk:
    """The rows that first appeared in a chunk, each as it is now."""
    first, last = number * CHUNK + 1, (number + 1) * CHUNK
    rows = folded(events, list(events.filter(seq__range=(first, last)).order_by("seq")))
    return Chunk(number, [entry for entry in rows if first <= entry.seq])


def moments(events: EventQuerySet) -> tuple[list[int], int]:
    """When each chunk began and when the last event came, in milliseconds on the run's clock. A
    chunk of which nothing may be seen begins with the one before it.
    """
    number = Cast((F("seq") - 1) / CHUNK, IntegerField())
    begun = dict(
        events.order_by().annotate(number=number).values_list("number").annotate(Min("t_ms"))
    )
    starts: list[int] = []
    for chunk in range(max(begun, default=-1) + 1):
        starts.append(begun.get(chunk, starts[-1] if starts else 0))
    return starts, events.aggregate(ends=Max("t_ms"))["ends"] or 0


def since(events: EventQuerySet, after: int, upto: int) -> tuple[list[Entry], int]:
    """The rows that are new or changed above a cursor, and the cursor behind them."""
    fresh = events.filter(seq__gt=after, seq__lte=upto).order_by("seq")
    page = list(fresh[:CHUNK])
    reached = page[-1].seq if len(page) == CHUNK else max(upto, after)
    return folded(events, page), reached


def matching(events: EventQuerySet, words: str) -> list[Entry]:
    """The first rows that say `words`, upper and lower case alike: in a value, not by the name of
    one.
    """
    needle = json.dumps(words)[1:-1]
    found = events.annotate(text=Cast("body", TextField())).filter(text__icontains=needle)
    sought = words.casefold()
    saying = (event for event in found.order_by("seq").iterator() if _says(event.body, sought))
    rows = folded(events, list(islice(saying, FOUND)))
    return [entry for entry in rows if _says(entry.event.body, sought)]


def _says(value: Any, words: str) -> bool:
    """Whether a text or a number in a value of JSON holds `words`."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return any(_says(each, words) for each in inner)
    return not isinstance(value, bool | None) and words in str(value).casefold()


def outline(events: EventQuerySet) -> list[Entry]:
    """The newest turns, submissions, evaluations and gates, in order."""
    newest = list(events.filter(kind__in=OUTLINED).order_by("-seq")[:OUTLINE])
    return folded(events, newest[::-1])


def folded(events: EventQuerySet, page: Sequence[Event]) -> list[Entry]:
    """Each event of `page` once: its newest revision, at the seq of its first."""
    own = {event.pk: event for event in page}
    named = {event.event_id: event.pk for event in page if _revisable(event)}
    revisions = events.filter(event_id=OuterRef("event_id"))
    ends = Event.objects.filter(pk__in=named.values()).annotate(
        first=Subquery(revisions.order_by("rev").values("seq")[:1]),
        newest=Subquery(revisions.order_by("-rev").values("pk")[:1]),
    )
    found = {name: rest for name, *rest in ends.values_list("event_id", "first", "newest")}
    own |= events.in_bulk({newest for _, newest in found.values()} - own.keys())
    rows: dict[int, Entry] = {}
    for event in page:
        seq, newest = found[event.event_id] if _revisable(event) else (event.seq, event.pk)
        rows.setdefault(seq, Entry(seq, own[newest]))
    return [rows[seq] for seq in sorted(rows)]


def _revisable(event: Event) -> bool:
    return event.kind not in KEPT_APART and not event.event_id.startswith(UNNAMED)
