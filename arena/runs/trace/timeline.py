"""Rows of the trace on a run's page: by chunk, above a cursor, or by a search."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from operator import or_

from django.db.models import (
    F,
    IntegerField,
    Max,
    Min,
    Q,
    QuerySet,
    TextField,
)
from django.db.models.functions import Cast

from arena.runs.models import Event
from arena.runs.trace.entries import (
    MAX_NESTED,
    Entry,
    Outcome,
    contains,
    latest,
    span_of,
)
from arena.runs.trace.joining import joined

CHUNK_EVENTS = 100
MAX_FOUND_ROWS = 100
HARNESS_OUTPUT = "raw_output"  # events say the same, so a search finds those alone
PLAIN_TEXT = re.compile(r"[ -~]+")


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


def rows(events: QuerySet[Event], upto: int) -> Iterator[Entry]:
    """Yield the rows of a trace in order, read a chunk at a time."""
    for number in range(chunk_of(upto) + 1):
        yield from chunk(events, number).entries


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
    return folded(events, [*_judged_edits(events, page), *page]), reached


@dataclass(frozen=True)
class Found:
    """Rows that were found, and the seq above which there may be more; 0 if these are all."""

    entries: list[Entry]
    more_after: int = 0


def matching(events: QuerySet[Event], words: str, among: Q | None = None, after: int = 0) -> Found:
    """Return the first rows with `words` in a value of their body, in upper or lower case.

    `among` narrows the events that are searched; the first rows are those above seq `after`. The
    database narrows by the longest run of printable ASCII. The stored JSON escapes other
    characters on SQLite, and folding their case is up to the database's locale on PostgreSQL.
    """
    candidates = events.filter(among or Q(), seq__gt=after).order_by("seq")
    sought = words.casefold()
    if words:
        plain = max(PLAIN_TEXT.findall(words), key=len, default="")
        with_text = candidates.annotate(text=Cast("body", TextField()))
        narrowed = with_text.filter(text__icontains=json.dumps(plain)[1:-1])
        events_in_order: Iterator[Event] = narrowed.exclude(kind=HARNESS_OUTPUT).iterator()
        hits = (event for event in events_in_order if contains(event.body, sought))
        page = list(islice(hits, MAX_FOUND_ROWS))
    else:
        page = list(candidates[:MAX_FOUND_ROWS])
    rows = folded(events, page)
    more_after = page[-1].seq if len(page) == MAX_FOUND_ROWS else 0
    return Found([entry for entry in rows if not words or entry.contains(sought)], more_after)


def todo_list(events: QuerySet[Event]) -> Entry | None:
    """Return the plan of the agent as it is now."""
    newest = events.filter(kind="todo_list").order_by("-seq")[:1]
    return next(iter(folded(events, list(newest))), None)


def place(events: QuerySet[Event], seq: int) -> int:
    """Return the seq of the row that shows an event; of itself if there is no such event."""
    rows = folded(events, list(events.filter(seq=seq)))
    return rows[0].seq if rows else seq


def neighbours(events: QuerySet[Event], seq: int, upto: int) -> tuple[int, int]:
    """Return the seqs of the rows before and after a row; 0 where there is none."""

    def first(numbers: Iterable[int], step: int) -> int:
        seqs = (row.seq for number in numbers for row in chunk(events, number).entries[::step])
        return next((other for other in seqs if (other - seq) * step > 0), 0)

    here = chunk_of(seq)
    return first(range(here, -1, -1), -1), first(range(here, chunk_of(upto) + 1), 1)


def folded(events: QuerySet[Event], page: Sequence[Event]) -> list[Entry]:
    """Return the rows that show the events of `page`, each once and in order."""
    rows = _with_outcomes(events, joined(events, latest(events, page)))
    within = _subagents(events, (row.event for row in rows))
    return [replace(row, agents=within.get(span_of(row.event), ())) for row in rows]


def _judged_edits(events: QuerySet[Event], page: Sequence[Event]) -> list[Event]:
    """Return the edits that led to the rounds whose verdicts are in a page: their rows change."""
    ended = {event.body.get("round") for event in page if _ends_round(event)}
    if not ended:
        return []
    begins = _submissions(events)
    spans = [
        (begins[at - 1][0] if at else 0, seq)
        for at, (seq, number) in enumerate(begins)
        if number in ended
    ]
    between = reduce(or_, (Q(seq__gt=begin, seq__lt=end) for begin, end in spans), Q(pk=None))
    return list(events.filter(between, kind="file_edit").order_by("seq"))


def _ends_round(event: Event) -> bool:
    return event.kind == "span_end" and event.body.get("span_kind") == "evaluation"


def _submissions(events: QuerySet[Event]) -> list[tuple[int, int]]:
    """Return the seq and number of each submission, in order."""
    begins = events.filter(kind="span_begin", body__span_kind="submission").order_by("seq")
    return list(begins.values_list("seq", "body__round"))


def _with_outcomes(events: QuerySet[Event], rows: list[Entry]) -> list[Entry]:
    """Give each edit the verdict of the first round that was submitted after it."""
    if not any(row.event.kind == "file_edit" for row in rows):
        return rows
    begins, verdicts = _submissions(events), _outcomes(events)
    seqs = [seq for seq, _ in begins]

    def outcome(row: Entry) -> Outcome | None:
        at = bisect_right(seqs, row.event.seq)
        return verdicts.get(begins[at][1]) if at < len(begins) else None

    return [
        replace(row, outcome=outcome(row)) if row.event.kind == "file_edit" else row for row in rows
    ]


def _outcomes(events: QuerySet[Event]) -> dict[int, Outcome]:
    """Return the verdict of each round that has one; the final verdict is another measurement."""
    spans = events.filter(kind="span_begin", body__span_kind="evaluation", body__scope="round")
    ends = events.filter(kind="span_end", span__in=list(spans.values_list("event_id", flat=True)))
    metrics = events.filter(kind="metric", body__name="speedup", body__scope="round")
    speedups = dict(metrics.values_list("body__round", "body__value"))
    found: dict[int, Outcome] = {}
    before = None
    fields = ("seq", "t_ms", "body__round", "body__verdict")
    for seq, at, number, verdict in ends.order_by("seq").values_list(*fields):
        found[number] = Outcome(seq, at, number, verdict, speedups.get(number), before)
        before = speedups.get(number, before)
    return found


def _subagents(events: QuerySet[Event], shown: Iterable[Event]) -> dict[str, tuple[str, ...]]:
    """Return the titles of the subagents around each span of these events, outermost first."""
    begins: dict[str, Event] = {}
    spans = wanted = {span_of(event) for event in shown} - {""}
    for _ in range(2 * MAX_NESTED):  # a turn may stand between two subagents
        if not wanted:
            break
        ids = {name for span in wanted for name in (span, f"{span}-begin")}
        found = events.filter(kind="span_begin", event_id__in=ids).order_by("rev")
        begins |= {span_of(event): event for event in found}
        wanted = {begins[span].parent for span in wanted if span in begins} - begins.keys() - {""}
    around: dict[str, tuple[str, ...]] = {}
    for span in spans:
        titles: list[str] = []
        seen: set[str] = set()
        at = span
        while at in begins and at not in seen:
            seen.add(at)
            body = begins[at].body
            if body["span_kind"] == "subagent":
                titles.insert(0, body["title"] or "subagent")
            at = begins[at].parent
        around[span] = tuple(titles)
    return around
