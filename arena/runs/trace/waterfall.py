"""Lanes of a run on its own clock: when models, tools, subagents and the judge were at work.

Bars of the judge are drawn from its gates, whose events come when they have ended; the rest of an
evaluation is its time in a queue.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from django.db.models import Max, QuerySet

from arena.runs.models import Event
from arena.runs.states import SCOPES_COUNTED
from evaluation import types

LANES = ("model", "tools", "subagents", "build", "measure", "queue")
BUILD_GATES = (types.GateName.INTEGRITY, types.GateName.COMPILE)
MAX_BARS = 400
"""Bars of a drawing: beyond it neighbours are joined."""
JOINED_SHARE = 0.002
"""Of the run's time, between two bars that are joined at first."""
MAX_POINTS = 200
"""Of a curve."""


@dataclass(frozen=True)
class Bar:
    """Time in a lane, in milliseconds of the run, and the event that it leads to."""

    begin: float
    end: float
    seq: int


@dataclass(frozen=True)
class Lane:
    name: str
    bars: Sequence[Bar]
    busy_ms: float
    """Time that its bars cover together."""


@dataclass(frozen=True)
class Verdict:
    """End of a round: its verdict, its speedup or None, and the best so far."""

    at: float
    seq: int
    round: int
    verdict: str
    speedup: float | None
    best: float | None


@dataclass(frozen=True)
class Curve:
    """Values of a figure over the run's time; the last one is the present one."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Waterfall:
    ends: float
    lanes: Sequence[Lane]
    verdicts: Sequence[Verdict]
    curves: Sequence[Curve]


def waterfall(events: QuerySet[Event]) -> Waterfall | None:
    """Return the lanes of a run; None before anything took time."""
    ends = events.aggregate(ends=Max("t_ms"))["ends"] or 0
    if not ends:
        return None
    calls = _model_calls(events)
    found = {
        "model": [Bar(max(0.0, at - took), at, seq) for seq, at, took, *_ in calls if took],
        "tools": _tools(events, ends),
        "subagents": _subagents(events, ends),
        **_evaluations(events, ends),
    }
    lanes = [Lane(name, found[name], _covered(found[name])) for name in LANES if found[name]]
    return Waterfall(ends, _thinned(lanes, ends), _verdicts(events), _curves(calls))


def _model_calls(events: QuerySet[Event]) -> list[tuple[Any, ...]]:
    """Return seq, end, duration, usage and cost of each call of a model.

    A model that is not behind the gateway is known by its messages alone.
    """
    fields = ("seq", "t_ms", "body__latency_ms", "body__usage", "body__cost_usd")
    calls = events.filter(kind="model_call").order_by("seq").values_list(*fields)
    if found := list(calls):
        return found
    messages = events.filter(kind="message", body__role="assistant").order_by("seq")
    return list({row[0]: row for row in messages.values_list(*fields)}.values())


def _tools(events: QuerySet[Event], ends: float) -> list[Bar]:
    results: dict[str, float] = {}
    answers = events.filter(kind="tool_result").order_by("seq").values_list("body__call", "t_ms")
    for call, at in answers:
        results.setdefault(call, at)
    begins: dict[str, tuple[int, int]] = {}
    calls = events.filter(kind="tool_call").order_by("seq").values_list("event_id", "seq", "t_ms")
    for name, seq, at in calls:
        begins.setdefault(name, (seq, at))
    return [Bar(at, results.get(name, ends), seq) for name, (seq, at) in begins.items()]


def _subagents(events: QuerySet[Event], ends: float) -> list[Bar]:
    spans = events.filter(body__span_kind="subagent").order_by("seq")
    ended = dict(spans.filter(kind="span_end").values_list("span", "t_ms"))
    begins = spans.filter(kind="span_begin").values_list("span", "seq", "t_ms")
    return [Bar(at, ended.get(span, ends), seq) for span, seq, at in begins]


def _evaluations(events: QuerySet[Event], ends: float) -> dict[str, list[Bar]]:
    """Return the bars of the judge: building, measuring, and waiting for either."""
    lanes: dict[str, list[Bar]] = {"build": [], "measure": [], "queue": []}
    begins = events.filter(kind="span_begin", body__span_kind="evaluation").order_by("seq")
    spans = events.filter(kind="span_end", body__span_kind="evaluation")
    ended = dict(spans.values_list("span", "t_ms"))
    gates: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    results = events.filter(kind="gate_result").order_by("seq")
    fields = ("span", "seq", "t_ms", "body__gate", "body__duration_ms")
    for span, *gate in results.values_list(*fields):
        gates[span].append(tuple(gate))
    rows = begins.values_list("event_id", "seq", "t_ms", "body__scope")
    for span, seq, begin, scope in rows:
        end = ended.get(span, ends)
        if scope == "profile":
            lanes["measure"].append(Bar(begin, end, seq))
            continue
        at: float = begin
        lane = "queue"
        for gate_seq, finished, name, took in gates[span]:
            started = max(at, finished - (took or 0))
            if started > at:
                lanes["queue"].append(Bar(at, started, seq))
            lane = "build" if name in BUILD_GATES else "measure"
            lanes[lane].append(Bar(started, finished, gate_seq))
            at = max(at, finished)
        if end > at:  # what follows the last gate belongs to it; before the first one it waits
            lanes[lane].append(Bar(at, end, seq))
    return lanes


def _verdicts(events: QuerySet[Event]) -> list[Verdict]:
    """Return the verdict of each round: its own, else the final one with its public speedup."""
    metrics = events.filter(kind="metric", body__name="speedup", body__scope__in=SCOPES_COUNTED)
    timed: dict[int, tuple[float, float | None]] = {}
    fields = ("body__round", "body__value", "body__best")
    for number, value, best in metrics.order_by("seq").values_list(*fields):
        timed.setdefault(number, (value, best))  # the final one comes later
    ends = events.filter(kind="span_end", body__span_kind="evaluation").order_by("seq")
    found: dict[int, Verdict] = {}
    columns = ("t_ms", "seq", "body__round", "body__verdict")
    for at, seq, number, verdict in ends.values_list(*columns):
        if verdict and number is not None and number not in found:  # the final one comes later
            passed = verdict == types.Verdict.PASSED
            speedup, best = timed.get(number, (None, None)) if passed else (None, None)
            found[number] = Verdict(at, seq, number, verdict, speedup, best)
    return list(found.values())


def _curves(calls: Sequence[tuple[Any, ...]]) -> list[Curve]:
    """Return tokens and cost so far, and the tokens in the context of each call."""
    used = [(at, usage, cost or 0.0) for _, at, _, usage, cost in calls if usage]
    times = [at for at, _, _ in used]
    spent = [usage["input_tokens"] + usage["output_tokens"] for _, usage, _ in used]
    figures = {
        "tokens": list(accumulate(spent)),
        "cost": list(accumulate(cost for *_, cost in used)),
        "context": [usage["input_tokens"] for _, usage, _ in used],
    }
    return [
        Curve(name, _some(list(zip(times, values, strict=True))))
        for name, values in figures.items()
        if any(values)
    ]


def _some(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most about MAX_POINTS of some points, the last among them."""
    step = max(1, math.ceil(len(points) / MAX_POINTS))
    return points[-1::-step][::-1]


def _covered(bars: Iterable[Bar]) -> float:
    """Return the time that bars cover together, where they overlap once."""
    covered, reached = 0.0, -math.inf
    for bar in sorted(bars, key=lambda bar: bar.begin):
        covered += max(0.0, bar.end - max(bar.begin, reached))
        reached = max(reached, bar.end)
    return covered


def _thinned(lanes: list[Lane], ends: float) -> list[Lane]:
    """Join neighbouring bars, wider apart each time, until there are few enough."""
    gap = JOINED_SHARE * ends
    while sum(len(lane.bars) for lane in lanes) > MAX_BARS:
        lanes = [Lane(lane.name, _joined(lane.bars, gap), lane.busy_ms) for lane in lanes]
        gap *= 2
    return lanes


def _joined(bars: Iterable[Bar], gap: float) -> list[Bar]:
    joined: list[Bar] = []
    for bar in sorted(bars, key=lambda bar: bar.begin):
        if joined and bar.begin - joined[-1].end < gap:
            last = joined[-1]
            joined[-1] = Bar(last.begin, max(last.end, bar.end), last.seq)
        else:
            joined.append(bar)
    return joined
