"""Choices among the rows of a trace: by subject, actor and time, with counts of the first two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Count, Q, QuerySet
from django.http import QueryDict

from arena.runs.models import Event
from arena.runs.trace.entries import FAILED
from arena.runs.trace.joining import CASES
from arena.runs.trace.timeline import place

SUBJECTS: Mapping[str, Q] = {
    "messages": Q(kind__in=["message", "note", "todo_list", "interrupt"], rev=0),
    "tools": Q(kind="tool_call", rev=0),
    "edits": Q(kind="file_edit", rev=0),
    "compiler": Q(kind="compiler_output", rev=0),
    "profiler": Q(kind="profiler_output", rev=0),
    "verdicts": Q(kind__in=["gate_result", "metric"], rev=0) & ~CASES
    | Q(kind__in=["span_begin", "span_end"], body__span_kind__in=["submission", "evaluation"]),
    "errors": Q(kind="error")
    | Q(kind__in=["tool_result", "compiler_output"], body__ok=False)
    | Q(kind__in=["gate_result", "span_end"], body__verdict__in=FAILED)
    | Q(kind="log", body__level="error")
    | Q(kind="model_call") & ~Q(body__error=""),
}
"""The events of each subject; errors are those whose rows are marked."""
GATES = Q(kind="gate_result")
SECONDS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?")
MAX_TRIED = 50
"""Events that are tried for one whose row lies further on."""


@dataclass(frozen=True)
class Sieve:
    """The subjects, the actors and the time that a reader chose; nothing stands for everything."""

    subjects: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    begin_ms: int | None = None
    end_ms: int | None = None
    """Bounds on the run's clock, both included."""

    @classmethod
    def of(cls, query: QueryDict) -> Sieve:
        """Return what a query chooses.

        `show` and `actor` are lists with commas, `begin` and `end` seconds.
        """
        subjects, actors = (
            tuple(dict.fromkeys(filter(None, query.get(name, "").replace("\0", "").split(","))))
            for name in ("show", "actor")
        )
        bounds = (_milliseconds(query.get(name, "")) for name in ("begin", "end"))
        return cls(tuple(name for name in subjects if name in SUBJECTS), actors, *bounds)

    def __bool__(self) -> bool:
        return bool(self.subjects or self.actors or self.timed)

    @property
    def timed(self) -> bool:
        return self.begin_ms is not None or self.end_ms is not None

    @property
    def condition(self) -> Q:
        chosen = reduce(or_, (SUBJECTS[name] for name in self.subjects), Q())
        if self.actors:
            chosen &= Q(actor__in=self.actors)
        if self.begin_ms is not None:
            chosen &= Q(t_ms__gte=self.begin_ms)
        if self.end_ms is not None:
            chosen &= Q(t_ms__lte=self.end_ms)
        return chosen


def _milliseconds(seconds: str) -> int | None:
    """Return a time of the run's clock; None for what is no number of seconds."""
    return round(1000 * float(seconds)) if SECONDS.fullmatch(seconds) else None


@dataclass(frozen=True)
class Chip:
    """A choice: its name, how many events it stands for, its query, and whether it is chosen."""

    name: str
    count: int
    query: str
    chosen: bool


def counts(events: QuerySet[Event]) -> dict[str, int]:
    """Return how many events there are of each subject."""
    return events.aggregate(**{name: Count("pk", filter=q) for name, q in SUBJECTS.items()})


def chips(events: QuerySet[Event], query: QueryDict) -> tuple[list[Chip], list[Chip]]:
    """Return the choices among subjects and among actors, each with what a click on it asks for."""
    sieve = Sieve.of(query)
    of_actors = events.order_by("actor").values_list("actor").annotate(count=Count("pk"))
    return (
        _chips(query, "show", sieve.subjects, counts(events).items()),
        _chips(query, "actor", sieve.actors, of_actors),
    )


def _chips(
    query: QueryDict, name: str, chosen: tuple[str, ...], counted: Iterable[tuple[str, int]]
) -> list[Chip]:
    found = []
    for choice, count in counted:
        if not count and choice not in chosen:
            continue
        left = [other for other in chosen if other != choice]
        asked = query.copy()
        for old in ("at", "chunk", "from", name):
            asked.pop(old, None)
        asked["tab"] = "trace"
        if wanted := left if choice in chosen else [*chosen, choice]:
            asked[name] = ",".join(wanted)
        found.append(Chip(choice, count, asked.urlencode(safe=","), choice in chosen))
    return found


def seek(events: QuerySet[Event], condition: Q, seq: int, forward: bool) -> int | None:
    """Return the seq of the next row, or the one before, that shows such an event."""
    beyond = events.filter(condition, **{"seq__gt" if forward else "seq__lt": seq})
    ordered = beyond.order_by("seq" if forward else "-seq")
    for found in ordered.values_list("seq", flat=True)[:MAX_TRIED]:
        row = place(events, found)  # a result stands in the row of its call
        if row > seq if forward else row < seq:
            return row
    return None
