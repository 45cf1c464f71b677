"""Entries of a trace: each event once, at its first place, in its newest revision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from arena.runs.models import Event
from arena.runs.trace.events import AGENT
from evaluation.types import Verdict

UNREVISED_KINDS = ("status",)  # each change of state stays as its own row
UNNAMED = "#"  # prefix of the ids of events without one; no event revises those
KINDS_OF_BOTH = ("error", "log", "note", "profiler_output")
"""Kinds that the arena and agents record; those of an agent are marked."""
FAILED = (Verdict.FAILED, Verdict.REJECTED, Verdict.BROKEN)
"""Verdicts whose rows are marked as errors."""
MAX_NESTED = 5
"""Levels of subagents that are drawn."""
EXCERPT, EXCERPT_BEFORE = 80, 20
"""Characters of an excerpt, and of it before what was sought."""


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

    `result` is what its event led to: the first result of a tool call, the end of a turn, or the
    speedup of an evaluation that ended. `cases` are the times of each case that a gate measured.
    `outcome` is the verdict that an edit led to, `earlier` the last resources of kernels that a
    compiler reported before for this architecture, `agents` the titles of the subagents around the
    event, outermost first.
    """

    seq: int
    event: Event
    result: Entry | None = None
    cases: tuple[Entry, ...] = ()
    outcome: Outcome | None = None
    earlier: Mapping[str, Mapping[str, float]] | None = None
    agents: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """Return a number that grows with each change of the row."""
        inner = [each.version for each in self.parts]
        return max([self.event.seq, *inner, self.outcome.seq if self.outcome else 0])

    @property
    def parts(self) -> tuple[Entry, ...]:
        """Return the rows that this one shows besides its own event."""
        return (*((self.result,) if self.result else ()), *self.cases)

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
            body.get("verdict") in FAILED
            or (body.get("ok") is False and not body.get("verdict"))
            or (kind == "log" and body["level"] == "error")
            or (kind in ("error", "model_call") and body.get("error", True))
            or (self.result and self.result.tone == "bad")
        ):
            return "bad"
        warns = kind == "log" and body["level"] == "warning" and body["stream"] != "stderr"
        warns |= body.get("verdict") == Verdict.INCONCLUSIVE
        return "warn" if warns or kind in ("limit", "interrupt") or body.get("retries") else ""

    @property
    def minor(self) -> bool:
        """Return True for a span that nests inside a turn; it is drawn lighter."""
        return self.event.body.get("span_kind") not in ("turn", "submission")

    @property
    def depth(self) -> int:
        return min(len(self.agents), MAX_NESTED)

    @property
    def judged(self) -> bool:
        """Return whether the row is part of an evaluation."""
        return span_of(self.event).startswith("evaluation-") and self.event.actor != AGENT

    @property
    def lasted(self) -> float | None:
        """Return the milliseconds up to what the event led to; None before that."""
        if self.result is None:
            return None
        stated: float | None = self.result.event.body.get("duration_ms")
        return self.result.event.t_ms - self.event.t_ms if stated is None else stated

    def excerpt(self, words: str) -> str:
        """Return the text around the first place of casefolded `words`; else how the row begins."""
        texts = [text for each in (self, *self.parts) for text in texts_in(each.event.body)]
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
        return any(contains(each.event.body, words) for each in (self, *self.parts))


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def contains(value: Any, words: str) -> bool:
    """Return whether a text or a number inside a JSON value contains casefolded `words`."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return any(contains(each, words) for each in inner)
    return not isinstance(value, bool | None) and words in str(value).casefold()


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


def span_of(event: Event) -> str:
    """Return the span of an event; of one that begins a span without naming it, its id."""
    return event.span or (event.event_id if event.kind == "span_begin" else "")
