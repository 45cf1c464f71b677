"""Outline of a trace: its turns, rounds and subagents, each with what became of it.

Where an agent marks no turns, each of its messages begins one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet

from arena.runs.models import Evaluation, Event
from arena.runs.states import SCOPES_COUNTED
from arena.runs.trace.entries import FAILED, Entry, latest, span_of
from evaluation.types import Verdict

MAX_ROWS = 120
MAX_TITLE_CHARACTERS = 60
MARKS = re.compile(r"[#*`]")
"""Marks of Markdown, which a title does without."""
MAX_QUOTED = 3
"""Messages before a round that its page quotes."""
MAX_TOOLS = 2
"""Tools that a turn names."""
TURNS = Q(kind="span_begin", body__span_kind="turn")
MESSAGES = Q(kind="message", body__role="assistant", rev=0)
OTHERS = Q(kind="span_begin", body__span_kind__in=["submission", "subagent"]) | Q(
    kind="span_begin", body__scope="final"
)
FAILURES = (
    Q(kind="error")
    | Q(kind__in=["tool_result", "compiler_output"], body__ok=False)
    | Q(kind="model_call") & ~Q(body__error="")
)
"""Events that give the turn in which they are a mark."""


@dataclass(frozen=True)
class Stop:
    """A place in a trace. Its time lasts to the next one of its kind, or to its end."""

    seq: int
    at: int
    kind: str
    """`turn`, `round`, `final` or `subagent`."""
    title: str
    round: int | None = None
    """Of a round or the final verdict."""
    did: str = ""
    """Names of the tools that a turn called first."""
    duration_ms: float | None = None
    tokens: int | None = None
    speedup: float | None = None
    noisy: bool = False
    verdict: str = ""
    """Of a round that did not pass."""
    reason: str = ""
    bad: bool = False

    @property
    def ends(self) -> int:
        return self.at + int(self.duration_ms or 0)


@dataclass(frozen=True)
class Outline:
    """Stops of a trace in order, and how many lie before and after them.

    `before` and `after` are the seqs of the nearest stop that is not there; 0 without one.
    """

    stops: Sequence[Stop]
    earlier: int = 0
    later: int = 0
    before: int = 0
    after: int = 0


def outline(events: QuerySet[Event], at: int = 0) -> Outline:
    """Return the stops of a trace; of a long one the newest, or those from around `at`."""
    with_turns = events.filter(TURNS).exists()
    found = events.filter((TURNS if with_turns else MESSAGES) | OTHERS).order_by("seq")
    seqs = list(found.values_list("seq", flat=True))
    begin = max(len(seqs) - MAX_ROWS, 0)
    if at:
        begin = min(begin, max(bisect_right(seqs, at) - 1 - MAX_ROWS // 2, 0))
    shown = seqs[begin : begin + MAX_ROWS]
    if not shown:
        return Outline([])
    rest = seqs[begin + len(shown) :]
    before = seqs[begin - 1] if begin else 0
    after = rest[0] if rest else 0
    entries = latest(events, list(found.filter(seq__range=(shown[0], shown[-1]))))
    inside = events.filter(seq__gt=before)
    if after:
        inside = inside.filter(seq__lt=after)
    stops = _lasting(events, entries, after)
    stops = _with_verdicts(events, stops, entries)
    stops = _with_tools(inside, stops)
    stops = _with_tokens(inside, stops, with_turns)
    return Outline(_marked(inside, stops), begin, len(rest), before, after)


def messages_before(events: QuerySet[Event], number: int) -> list[Entry]:
    """Return the last messages of the agent since the round before, up to its submission."""
    begins = events.filter(kind="span_begin", body__span_kind="submission", rev=0)
    seqs = dict(begins.order_by("-seq").values_list("body__round", "seq"))
    if number not in seqs:
        return []
    between = events.filter(MESSAGES, seq__gt=seqs.get(number - 1, 0), seq__lt=seqs[number])
    return latest(events, list(between.order_by("-seq")[:MAX_QUOTED])[::-1])


def _lasting(events: QuerySet[Event], entries: Sequence[Entry], after: int) -> list[Stop]:
    """Return the stops with their titles, turns and subagents with how long they lasted."""
    spans = {entry.seq: span_of(entry.event) for entry in entries}
    ends = dict(
        events.filter(kind="span_end", span__in=[span for span in spans.values() if span])
        .order_by("-seq")
        .values_list("span", "t_ms")
    )
    following = events.filter(seq=after).values_list("t_ms", flat=True).first() if after else None
    stops: list[Stop] = []
    next_at = following
    for entry in reversed(entries):
        event, kind = entry.event, _kind(entry.event)
        number = event.body.get("round")
        stop = Stop(entry.seq, event.t_ms, kind, _title(event, kind), number)
        end = ends.get(spans[entry.seq]) if event.kind == "span_begin" else None
        if kind == "turn":
            end = next_at if end is None else end
            next_at = event.t_ms
        if kind in ("turn", "subagent") and end is not None:
            stop = replace(stop, duration_ms=end - event.t_ms)
        stops.append(stop)
    return stops[::-1]


def _kind(event: Event) -> str:
    if event.kind == "message":
        return "turn"
    if event.body.get("scope") == "final":
        return "final"
    kind: str = event.body["span_kind"]
    return {"submission": "round"}.get(kind, kind)


def _title(event: Event, kind: str) -> str:
    if kind == "final":
        return "Final verdict"
    body = event.body
    text = body.get("title") or body.get("text") or body.get("reasoning") or kind
    lines = (MARKS.sub("", line).strip() for line in text.splitlines())
    first = next(filter(None, lines), kind)
    return first if len(first) <= MAX_TITLE_CHARACTERS else f"{first[: MAX_TITLE_CHARACTERS - 1]}…"


def _with_verdicts(
    events: QuerySet[Event], stops: list[Stop], entries: Sequence[Entry]
) -> list[Stop]:
    """Return the stops; rounds and the final verdict have their result, once they are judged."""
    numbers = {entry.seq: entry.event.body.get("round") for entry in entries}
    judged = [numbers[stop.seq] for stop in stops if stop.kind in ("round", "final")]
    begins = events.filter(kind="span_begin", body__span_kind="evaluation", body__round__in=judged)
    spans = {
        (number, scope): span
        for span, number, scope in begins.values_list("event_id", "body__round", "body__scope")
    }
    ended = events.filter(kind="span_end", span__in=list(spans.values()))
    ends = {
        span: rest
        for span, *rest in ended.values_list("span", "t_ms", "body__verdict", "body__reason")
    }
    metrics = events.filter(kind="metric", body__name="speedup", span__in=list(spans.values()))
    speedups = dict(metrics.order_by("seq").values_list("span", "body__value"))
    noisy = set(
        Evaluation.objects.filter(
            submission__run__in={entry.event.run_id for entry in entries},
            submission__round__in=judged,
            noisy=True,
        ).values_list("submission__round", "scope")
    )
    found = []
    for stop in stops:
        scope = stop.kind if stop.kind in SCOPES_COUNTED else ""
        span = spans.get((numbers[stop.seq], scope))
        if span in ends:
            at, verdict, reason = ends[span]
            failed = verdict if verdict != Verdict.PASSED else ""
            stop = replace(
                stop,
                duration_ms=at - stop.at,
                speedup=speedups.get(span),
                noisy=(numbers[stop.seq], scope) in noisy,
                verdict=failed,
                reason=reason if failed else "",
            )
        found.append(stop)
    return found


def _with_tools(inside: QuerySet[Event], stops: list[Stop]) -> list[Stop]:
    """Return the stops; turns name the tools that were called first."""
    seqs = [stop.seq for stop in stops]
    called: dict[int, dict[str, None]] = defaultdict(dict)
    for seq, tool in inside.filter(kind="tool_call", rev=0).values_list("seq", "body__tool"):
        called[bisect_right(seqs, seq) - 1][tool] = None
    return [
        replace(stop, did=", ".join(list(called[number])[:MAX_TOOLS])) if number in called else stop
        for number, stop in enumerate(stops)
    ]


def _with_tokens(inside: QuerySet[Event], stops: list[Stop], with_turns: bool) -> list[Stop]:
    """Return the stops; turns have the tokens of their model calls.

    A call comes within a turn that an agent marks, and before the message that it answers with.
    """
    turns = [number for number, stop in enumerate(stops) if stop.kind == "turn"]
    seqs = [stops[number].seq for number in turns]
    used: dict[int, int] = defaultdict(int)
    for seq, usage in inside.filter(kind="model_call").values_list("seq", "body__usage"):
        at = bisect_right(seqs, seq) - 1 if with_turns else bisect_left(seqs, seq)
        if usage and 0 <= at < len(turns):
            used[turns[at]] += usage["input_tokens"] + usage["output_tokens"]
    return [
        replace(stop, tokens=used[number]) if number in used else stop
        for number, stop in enumerate(stops)
    ]


def _marked(inside: QuerySet[Event], stops: list[Stop]) -> list[Stop]:
    """Return the stops, marked where something failed before the next one.

    A verdict that is no pass decides alone: an inconclusive round is no failure.
    """
    seqs = [stop.seq for stop in stops]
    failures = inside.filter(FAILURES).values_list("seq", flat=True)
    bad = {bisect_right(seqs, seq) - 1 for seq in failures}
    return [
        replace(stop, bad=stop.verdict in FAILED if stop.verdict else number in bad)
        for number, stop in enumerate(stops)
    ]
