"""Rows of the trace on a run's page.

A row is one logical event: it stands where the event first appeared and shows its newest revision.
The first result of a tool call is part of the call's row.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from operator import or_
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
from arena.runs.trace.events import AGENT

CHUNK_EVENTS = 100
MAX_FOUND_ROWS = 100
EXCERPT, EXCERPT_BEFORE = 80, 20
"""Characters of an excerpt, and of it before what was sought."""
UNREVISED_KINDS = ("status",)  # each change of state stays as its own row
HARNESS_OUTPUT = "raw_output"  # events say the same, so a search finds those alone
KINDS_OF_BOTH = ("error", "log", "note", "profiler_output")
"""Kinds that the arena and agents record; those of an agent are marked."""
MAX_NESTED = 5
"""Levels of subagents that are drawn."""
UNNAMED = "#"  # prefix of the ids of events without one; no event revises those
PLAIN_TEXT = re.compile(r"[ -~]+")


@dataclass(frozen=True)
class Outcome:
    """Verdict on a round, by the event of its end, and the speedup of the last round before it."""

    seq: int
    at: int
    round: int
    verdict: str
    speedup: float | None
    before: float | None


@dataclass(frozen=True)
class Entry:
    """One row: the newest revision of an event, at the seq where the event first appeared.

    `result` is the first result of a tool call, `outcome` the verdict that an edit led to, `agents`
    the titles of the subagents around the event, outermost first.
    """

    seq: int
    event: Event
    result: Entry | None = None
    outcome: Outcome | None = None
    agents: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """Return a number that grows with each change of the row."""
        result = self.result.version if self.result else 0
        return max(self.event.seq, result, self.outcome.seq if self.outcome else 0)

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
    def is_word_of_agent(self) -> bool:
        """Return whether an agent wrote what could be taken for the arena's own."""
        event = self.event
        system = event.kind == "message" and event.body["role"] == "system"
        return event.actor == AGENT and (event.kind in KINDS_OF_BOTH or system)

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

    def excerpt(self, words: str) -> str:
        """Return the text around the first place of casefolded `words`; else how the row begins."""
        texts = [text for each in (self, self.result) if each for text in texts_in(each.event.body)]
        for text in texts:
            at = text.casefold().find(words) if words else -1
            if at >= 0:
                begin = max(0, at - EXCERPT_BEFORE)
                return ("…" if begin else "") + " ".join(text[begin : begin + EXCERPT].split())
        body = self.event.body
        first: str = body.get("path") or body.get("message") or max(texts, key=len, default="")
        return " ".join(first[:EXCERPT].split())

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
        hits = (event for event in events_in_order if _contains(event.body, sought))
        page = list(islice(hits, MAX_FOUND_ROWS))
    else:
        page = list(candidates[:MAX_FOUND_ROWS])
    rows = folded(events, page)
    more_after = page[-1].seq if len(page) == MAX_FOUND_ROWS else 0
    return Found([entry for entry in rows if not words or entry.contains(sought)], more_after)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def _contains(value: Any, words: str) -> bool:
    """Return whether a text or a number inside a JSON value contains casefolded `words`."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return any(_contains(each, words) for each in inner)
    return not isinstance(value, bool | None) and words in str(value).casefold()


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
    rows = _with_outcomes(events, _paired(events, latest(events, page)))
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


def latest(events: QuerySet[Event], page: Sequence[Event]) -> list[Entry]:
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
        calls |= {row.event.event_id: row for row in latest(events, list(found))}
    if not calls:
        return rows
    here = {row.event.event_id: row for row in results}
    firsts = _first_results(events, calls)
    named = [event for event in firsts.values() if event.event_id not in here]
    here |= {row.event.event_id: row for row in latest(events, named)}
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


def span_of(event: Event) -> str:
    """Return the span of an event; of one that begins a span without naming it, its id."""
    return event.span or (event.event_id if event.kind == "span_begin" else "")
