"""A run as it was at a moment of its own clock, for a replay."""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from arena.runs.models import Evaluation, Event, Run
from arena.runs.scores import SCORES
from arena.runs.states import RUN_ACTIVE, EvaluationStatus, RunStatus
from evaluation.types import GateName

CHANGES = Q(kind__in=["status", "gate_result"]) | Q(
    kind__in=["span_begin", "span_end"], body__span_kind__in=["submission", "evaluation"]
)
"""Events with which more of a run is known."""
MAX_MARKS = 2000
"""Moments of a replay; calls of a model are among them where there are few enough."""

Judged = tuple[int, str]
"""Number of a round, and the scope of a verdict on it."""


@dataclass(frozen=True)
class Past:
    """Rounds, verdicts and gates that were known at a moment, in milliseconds of the run."""

    upto: int
    status: str
    rounds: frozenset[int]
    begun: frozenset[Judged]
    ended: frozenset[Judged]
    gates: dict[Judged, frozenset[str]]

    def knows(self, evaluation: Evaluation, number: int) -> bool:
        return (number, evaluation.scope) in self.begun

    def has_ended(self, evaluation: Evaluation, number: int) -> bool:
        return (number, evaluation.scope) in self.ended

    def evaluation(self, found: Evaluation | None, number: int) -> Evaluation | None:
        """Return an evaluation as it was; None before it was requested."""
        if found is None or not self.knows(found, number):
            return None
        if self.has_ended(found, number):
            return found
        known = copy.copy(found)
        measures = GateName.COMPILE in self.gates.get((number, found.scope), ())
        known.status = EvaluationStatus.MEASURING if measures else EvaluationStatus.BUILDING
        known.verdict = known.reason = known.message = ""
        known.ended_at, known.noisy = None, False
        for name in SCORES:
            setattr(known, name, None)
        return known

    def gates_of(self, evaluation: Evaluation, number: int) -> frozenset[str]:
        """Return the names of the gates that had ended."""
        return self.gates.get((number, evaluation.scope), frozenset())

    def run(self, found: Run) -> Run:
        """Return the run as it was."""
        known = copy.copy(found)
        known.status, known.rounds = self.status, len(self.rounds)
        known.reason = known.fault = ""
        known.ended_at, known.noisy = None, False
        for name in SCORES:
            setattr(known, name, None)
        return known


def past_of(run: Run, upto: int) -> Past | None:
    """Return what was known of a run by a moment; None if that is all."""
    if not run.ended:
        return None
    events = run.events.filter(t_ms__lte=upto)
    states = events.filter(kind="status").order_by("seq").values_list("body__state", flat=True)
    status = list(states)[-1:] or [str(RunStatus.QUEUED)]
    if status[0] not in RUN_ACTIVE:
        return None
    submissions = events.filter(kind="span_begin", body__span_kind="submission")
    spans = dict(_judged(events.filter(kind="span_begin", body__span_kind="evaluation")))
    ends = events.filter(kind="span_end", span__in=list(spans)).values_list("span", flat=True)
    gates: dict[Judged, set[str]] = defaultdict(set)
    results = events.filter(kind="gate_result", span__in=list(spans))
    for span, name in results.values_list("span", "body__gate"):
        gates[spans[span]].add(name)
    return Past(
        upto=upto,
        status=status[0],
        rounds=frozenset(submissions.values_list("body__round", flat=True)),
        begun=frozenset(spans.values()),
        ended=frozenset(spans[span] for span in ends),
        gates={judged: frozenset(names) for judged, names in gates.items()},
    )


def _judged(begins: QuerySet[Event]) -> list[tuple[str, Judged]]:
    rows = begins.values_list("event_id", "body__round", "body__scope")
    return [(span, (number, scope)) for span, number, scope in rows]


def marks(events: QuerySet[Event]) -> list[int]:
    """Return the moments at which more of a run becomes known, in order."""
    times: Any = events.order_by("t_ms").values_list("t_ms", flat=True).distinct()
    known = list(times.filter(CHANGES))
    with_calls = list(times.filter(CHANGES | Q(kind="model_call"))[: MAX_MARKS + 1])
    return with_calls if len(with_calls) <= MAX_MARKS else known
