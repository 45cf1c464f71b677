"""Rows of the trace on a run's page.

A row is one logical event: it stands where the event first appeared and shows its newest revision.
The first result of a tool call is part of the call's row.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from django.db.models import (
    F,
    IntegerField,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
)
from django.db.models.functions import Cast

from arena.runs.models import Event

CHUNK_EVENTS = 200
MAX_OUTLINE_ROWS = 4000
MAX_FOUND_ROWS = 200
OUTLINED = (
    Q(kind="gate_result")
    | Q(kind="span_begin", body__span_kind__in=["turn", "submission"])
    | Q(kind="span_begin", body__scope="final")
)
"""The stops of the outline: turns, submissions, gates and the final verdict."""
UNREVISED_KINDS = ("status",)  # each change of state stays as its own row
HARNESS_OUTPUT = "raw_output"  # events say the same, so a search finds those alone
MAX_NESTED = 5
"""Levels of subagents that are drawn."""
UNNAMED = "#"  # prefix of the ids of events without one; no event revises those
PLAIN_TEXT = re.compile(r"[ -~]+")


@dataclass(frozen=True)
class Entry:
    """One row: the newest revision of an event, at the seq where the event first appeared.

    `result` is the first result of a tool call, `agents` the titles of the subagents around the
    event, outermost first.
    """

    seq: int
    event: Event
    result: Entry | None = None
    agents: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """Return a number that grows with each change of the row."""
        return max(self.event.seq, self.result.version if self.result else 0)

    @property
    def label(self) -> str:
        kind, body = self.event.kind, self.event.body
        span = body.get("span_kind", "")
        names = {
            "span_begin": span,
            "span_end": f"{span} ends",
            "compiler_output": "compiler",
            "todo_list": "plan",
            "log": {"network": "refused", "provider": "provider"}.get(body.get("stream", ""), ""),
        }
        return names.get(kind) or kind.replace("_", " ")

    @property
    def tone(self) -> str:
        """Return "bad" for a failure, "warn" for what a reader should know of, else ""."""
        kind, body = self.event.kind, self.event.body
        if (
            body.get("ok") is False
            or body.get("verdict") in ("failed", "rejected", "broken")
            or (kind == "log" and body["level"] == "error")
            or (kind in ("error", "model_call") and body.get("error", True))
            or (self.result and self.result.tone == "bad")
        ):
            return "bad"
        warns = kind == "log" and body["level"] == "warning" and body["stream"] != "stderr"
        return "warn" if warns or kind in ("limit", "interrupt") or body.get("retries") else ""

    @property
    def minor(self) -> bool:
        """Return True for a span that nests inside a turn; it is drawn lighter."""
        return self.event.body.get("span_kind") not in ("turn", "submission")

    @property
    def depth(self) -> int:
        return min(len(self.agents), MAX_NESTED)

    def contains(self, words: str) -> bool:
        """Return whether a value of the row contains casefolded `words`."""
        inside = _contains(self.event.body, words)
        return inside or (self.result is not None and self.result.contains(words))


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
    narrowed = narrowed.exclude(kind=HARNESS_OUTPUT)
    sought = words.casefold()
    candidates = narrowed.order_by("seq").iterator()
    page = islice((event for event in candidates if _contains(event.body, sought)), MAX_FOUND_ROWS)
    return [entry for entry in folded(events, list(page)) if entry.contains(sought)]


def _contains(value: Any, words: str) -> bool:
    """Return whether a text or a number inside a JSON value contains casefolded `words`."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return any(_contains(each, words) for each in inner)
    return not isinstance(value, bool | None) and words in str(value).casefold()


@dataclass(frozen=True)
class Outline:
    """Stops of a trace in order, and how many lie before and after them.

    `before` and `after` are the seqs of the nearest stop that is not there; 0 without one.
    """

    entries: list[Entry]
    earlier: int = 0
    later: int = 0
    before: int = 0
    after: int = 0


def outline(events: QuerySet[Event], at: int = 0) -> Outline:
    """Return every stop of a trace; of a very long one the newest, or those from around `at`."""
    stops = events.filter(OUTLINED).order_by("seq")
    seqs = list(stops.values_list("seq", flat=True))
    begin = max(len(seqs) - MAX_OUTLINE_ROWS, 0)
    if at:
        begin = min(begin, max(bisect_left(seqs, at) - MAX_OUTLINE_ROWS // 2, 0))
    shown = seqs[begin : begin + MAX_OUTLINE_ROWS]
    rest = seqs[begin + len(shown) :]
    found = stops.filter(seq__gte=shown[0], seq__lte=shown[-1]) if shown else stops.none()
    before = seqs[begin - 1] if begin else 0
    entries = _newest(events, list(found))
    return Outline(entries, begin, len(rest), before, rest[0] if rest else 0)


def todo_list(events: QuerySet[Event]) -> Entry | None:
    """Return the plan of the agent as it is now."""
    newest = events.filter(kind="todo_list").order_by("-seq")[:1]
    return next(iter(folded(events, list(newest))), None)


def place(events: QuerySet[Event], seq: int) -> int:
    """Return the seq of the row that shows an event; of itself if there is no such event."""
    rows = folded(events, list(events.filter(seq=seq)))
    return rows[0].seq if rows else seq


def folded(events: QuerySet[Event], page: Sequence[Event]) -> list[Entry]:
    """Return the rows that show the events of `page`, each once and in order."""
    rows = _paired(events, _newest(events, page))
    within = _subagents(events, (row.event for row in rows))
    return [replace(row, agents=within.get(_span(row.event), ())) for row in rows]


def _newest(events: QuerySet[Event], page: Sequence[Event]) -> list[Entry]:
    """Return each event of `page` once: its newest revision, at the seq of its first."""
    own = {event.pk: event for event in page}
    named = {event.event_id: event.pk for event in page if _revisable(event)}
    if not named:
        return [Entry(event.seq, event) for event in page]
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


def _paired(events: QuerySet[Event], rows: list[Entry]) -> list[Entry]:
    """Put the first result of each call in the call's row, also of calls before these rows."""
    results = [row for row in rows if row.event.kind == "tool_result" and row.event.body["call"]]
    calls = {row.event.event_id: row for row in rows if row.event.kind == "tool_call"}
    away = {row.event.body["call"] for row in results} - calls.keys()
    if away:
        found = events.filter(kind="tool_call", event_id__in=away)
        calls |= {row.event.event_id: row for row in _newest(events, list(found))}
    if not calls:
        return rows
    here = {row.event.event_id: row for row in results}
    firsts = _first_results(events, calls)
    named = [event for event in firsts.values() if event.event_id not in here]
    here |= {row.event.event_id: row for row in _newest(events, named)}
    pairs = {
        call: replace(calls[call], result=here[event.event_id]) for call, event in firsts.items()
    }
    shown = {row.seq: row for row in rows} | {row.seq: row for row in calls.values()}
    for pair in pairs.values():
        assert pair.result
        shown[pair.seq] = pair
        shown.pop(pair.result.seq, None)
    return [shown[seq] for seq in sorted(shown)]


def _first_results(events: QuerySet[Event], calls: dict[str, Entry]) -> dict[str, Event]:
    """Return the event of the first result after each call, by the id of the call."""
    begin = min(row.seq for row in calls.values())
    after = events.filter(kind="tool_result", seq__gt=begin, body__call__in=list(calls))
    firsts: dict[str, Event] = {}
    for event in after.order_by("seq").iterator():
        call = event.body["call"]
        if event.seq > calls[call].seq:
            firsts.setdefault(call, event)
        if len(firsts) == len(calls):
            break
    return firsts


def _subagents(events: QuerySet[Event], shown: Iterable[Event]) -> dict[str, tuple[str, ...]]:
    """Return the titles of the subagents around each span of these events, outermost first."""
    begins: dict[str, Event] = {}
    spans = wanted = {_span(event) for event in shown} - {""}
    for _ in range(2 * MAX_NESTED):  # a turn may stand between two subagents
        if not wanted:
            break
        ids = {name for span in wanted for name in (span, f"{span}-begin")}
        found = events.filter(kind="span_begin", event_id__in=ids).order_by("rev")
        begins |= {_span(event): event for event in found}
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


def _span(event: Event) -> str:
    """Return the span of an event; of one that begins a span without naming it, its id."""
    return event.span or (event.event_id if event.kind == "span_begin" else "")
