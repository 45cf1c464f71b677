"""Rows of the trace on a run's page.

A row is one logical event: it stands where the event first appeared and shows its newest revision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import F, IntegerField, Max, Min, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast

from arena.runs.models import Event

CHUNK_EVENTS = 200
MAX_OUTLINE_ROWS = 1000
MAX_FOUND_ROWS = 200
OUTLINE_KINDS = ("span_begin", "gate_result")
UNREVISED_KINDS = ("status",)  # each change of state stays as its own row
UNNAMED = "#"  # prefix of the ids of events without one; no event revises those
PLAIN_TEXT = re.compile(r"[ -~]+")


@dataclass(frozen=True)
class Entry:
    """One row: the newest revision of an event, at the seq where the event first appeared."""

    seq: int
    event: Event

    @property
    def templates(self) -> list[str]:
        """Return the template of this kind of event, then the fallback."""
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
        """Return True for a span that nests inside a turn; it is drawn lighter."""
        return self.event.body.get("span_kind") not in ("turn", "submission")


@dataclass(frozen=True)
class Chunk:
    """Rows whose first seq lies in one range of CHUNK_EVENTS numbers."""

    number: int
    entries: list[Entry]


def chunk_of(seq: int) -> int:
    """Return the number of the chunk that holds this seq; seqs begin at 1."""
    return max(seq - 1, 0) // CHUNK_EVENTS


def chunk(events: QuerySet[Event], number: int) -> Chunk:
    """Return the rows that first appeared in a chunk."""
    first, last = number * CHUNK_EVENTS + 1, (number + 1) * CHUNK_EVENTS
    rows = folded(events, list(events.filter(seq__range=(first, last)).order_by("seq")))
    return Chunk(number, [entry for entry in rows if first <= entry.seq])


def moments(events: QuerySet[Event]) -> tuple[list[int], int]:
    """Return when each chunk begins and when the last event came, in milliseconds of run time."""
    number = Cast((F("seq") - 1) / CHUNK_EVENTS, IntegerField())
    begins = events.order_by().annotate(number=number).values("number").annotate(at=Min("t_ms"))
    starts = list(begins.order_by("number").values_list("at", flat=True))
    return starts, events.aggregate(ends=Max("t_ms"))["ends"] or 0


def since(events: QuerySet[Event], after: int, upto: int) -> tuple[list[Entry], int]:
    """Return the rows that are new or changed above a cursor, and the next cursor."""
    fresh = events.filter(seq__gt=after, seq__lte=upto).order_by("seq")
    page = list(fresh[:CHUNK_EVENTS])
    reached = page[-1].seq if len(page) == CHUNK_EVENTS else max(upto, after)
    return folded(events, page), reached


def matching(events: QuerySet[Event], words: str) -> list[Entry]:
    """Return the first rows with `words` in a value of their body, in upper or lower case.

    The database narrows by the longest run of printable ASCII. The stored JSON escapes other
    characters on SQLite, and folding their case is up to the database's locale on PostgreSQL.
    """
    plain = max(PLAIN_TEXT.findall(words), key=len, default="")
    with_text = events.annotate(text=Cast("body", TextField()))
    narrowed = with_text.filter(text__icontains=json.dumps(plain)[1:-1])
    sought = words.casefold()
    candidates = narrowed.order_by("seq").iterator()
    page = islice((event for event in candidates if _contains(event.body, sought)), MAX_FOUND_ROWS)
    return [entry for entry in folded(events, list(page)) if _contains(entry.event.body, sought)]


def _contains(value: Any, words: str) -> bool:
    """Return whether a text or a number inside a JSON value contains casefolded `words`."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return any(_contains(each, words) for each in inner)
    return not isinstance(value, bool | None) and words in str(value).casefold()


def outline(events: QuerySet[Event]) -> list[Entry]:
    """Return the newest turns, submissions, evaluations and gates, in order."""
    newest = list(events.filter(kind__in=OUTLINE_KINDS).order_by("-seq")[:MAX_OUTLINE_ROWS])
    return folded(events, newest[::-1])


def folded(events: QuerySet[Event], page: Sequence[Event]) -> list[Entry]:
    """Return each event of `page` once: its newest revision, at the seq of its first."""
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
    return event.kind not in UNREVISED_KINDS and not event.event_id.startswith(UNNAMED)
