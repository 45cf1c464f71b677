"""The judged runs that rankings read, as columns in memory.

A web process keeps the standings of all boards and reads only the rows that have changed since, so
that a request costs a look at their version and arithmetic on columns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db.models import Window
from django.db.models.functions import RowNumber
from numpy.typing import NDArray

from arena.catalog.models import DIRECT, Agent, Hardware, Task
from arena.runs.models import Evaluation, Run, Standing
from arena.runs.querysets import RunQuerySet
from arena.runs.standings import NEWEST_FIRST, PLACE, State, plus, state
from arena.runs.states import RunStatus, Scope

Rows = NDArray[Any]
"""Judged runs: a structured array of COLUMNS, where NaN stands for what is unknown."""
SCORES = (
    "speedup", "low", "high", "unseen_speedup", "unseen_low", "unseen_high", "roofline_share",
)  # fmt: skip
COLUMNS = np.dtype(
    [
        *[(name, "i8") for name in ("task", "agent", "hardware", "repeat", "task_version")],
        ("run", "O"),
        ("judge", "O"),
        ("passed", "?"),
        *[(name, "f8") for name in SCORES],
        *[(name, "f8") for name in ("created", "seconds", "rounds", "cost_usd", "tokens")],
    ]
)
PLACE_COLUMNS = ("task", "agent", "hardware", "repeat")
OF_RUN = ("created_at", "started_at", "ended_at", "status", "rounds", *SCORES)
CATALOG_SECONDS = 30
"""After this time tasks and agents are read again, whoever has changed them."""


@dataclass(frozen=True)
class TaskFacts:
    """The columns of a task that boards read."""

    operator: str
    title: str
    category: str
    track: str
    families: tuple[str, ...]

    @property
    def slug(self) -> str:
        return f"{self.operator}/{self.track}"


@dataclass(frozen=True)
class Snapshot:
    """The standings of all boards at one state, and what was computed from them so far.

    `rows` are those that count: none is of a draft task or of an agent in quarantine.
    """

    state: State
    every: Rows
    rows: Rows
    tasks: Mapping[int, TaskFacts]
    agents: Mapping[int, Agent]
    devices: Mapping[int, Hardware]
    read_at: float
    computed: dict[Any, Any] = field(default_factory=dict)


_kept: Snapshot | None = None
_lock = threading.Lock()


def snapshot() -> Snapshot:
    """Return the standings as they are now."""
    global _kept
    now = state()
    with _lock:
        kept = _kept
        stale = kept is not None and time.monotonic() - kept.read_at > CATALOG_SECONDS
        if kept is None or kept.state != now or stale:
            _kept = kept = _read(now, kept)
        return kept


def forget() -> None:
    """Drop what this process keeps, for a database that was replaced."""
    global _kept
    _kept = None


def newest_of(runs: RunQuerySet) -> Rows:
    """Return the newest of these runs for each place, read from the runs themselves."""
    position = Window(RowNumber(), partition_by=PLACE, order_by=NEWEST_FIRST)
    return rows_of(runs.annotate(position=position).filter(position=1).order_by(*NEWEST_FIRST))


def rows_of(runs: RunQuerySet) -> Rows:
    """Return these runs as rows, with the cost of the broken runs that they continue."""
    names = ("task_version__task", "agent", "hardware", "repeat", "task_version", "pk")
    found = list(runs.values_list(*names, "cost_usd", "tokens", *OF_RUN))
    continuing = Run.objects.exclude(continues=None)
    columns = ("pk", "continues", "continues__cost_usd", "continues__tokens")
    before = {pk: rest for pk, *rest in continuing.values_list(*columns)}
    finals = Evaluation.objects.filter(scope=Scope.FINAL, submission__run__in=runs.order_by())
    judges = dict(finals.order_by().values_list("submission__run", "judge_version"))
    rows = []
    for each in found:
        place, run, spent, rest = each[:5], each[5], each[6:8], each[8:]
        previous = run
        while previous in before:
            previous, *more = before[previous]
            spent = plus(spent, (more[0], more[1]))
        rows.append(_row(place, run, judges.get(run, ""), spent, rest))
    return np.array(rows, COLUMNS)


def replaced(rows: Rows, changed: Rows) -> Rows:
    """Return `rows` in which those of `changed` stand for their places."""
    places = {place: number for number, place in enumerate(_places(rows))}
    new = []
    kept = rows.copy()
    for row, place in zip(changed, _places(changed), strict=True):
        if place in places:
            kept[places[place]] = row
        else:
            new.append(row)
    return np.concatenate([kept, np.array(new, COLUMNS)]) if new else kept


def place_numbers(*tables: Rows) -> list[NDArray[Any]]:
    """Return a number for the place of each row of each table, equal for equal places."""
    numbers = [np.zeros(len(rows), "i8") for rows in tables]
    for name in PLACE_COLUMNS:
        radix = 1 + max((int(rows[name].max()) for rows in tables if len(rows)), default=0)
        numbers = [n * radix + rows[name] for n, rows in zip(numbers, tables, strict=True)]
    return numbers


def _places(rows: Rows) -> Iterable[tuple[int, ...]]:
    return zip(*(rows[name].tolist() for name in PLACE_COLUMNS), strict=True)


def _read(now: State, before: Snapshot | None) -> Snapshot:
    """Read what has changed since `before`, or all rows."""
    if before and before.state.epoch == now.epoch and before.state.number <= now.number:
        every = before.every
        if before.state != now:
            every = replaced(every, _standings(above=before.state.number))
    else:
        every = _standings(above=-1)
    tasks = _tasks()
    agents = Agent.objects.in_bulk()
    counted = [pk for pk, a in agents.items() if a.quarantined_at is None and a.adapter != DIRECT]
    counts = np.isin(every["task"], list(tasks)) & np.isin(every["agent"], counted)
    devices = Hardware.objects.in_bulk()
    return Snapshot(now, every, every[counts], tasks, agents, devices, time.monotonic())


def _standings(above: int) -> Rows:
    names = (*PLACE_COLUMNS, "run__task_version", "run", "judge_version", "cost_usd", "tokens")
    rows = Standing.objects.filter(version__gt=above).order_by("pk")
    found = rows.values_list(*names, *(f"run__{name}" for name in OF_RUN))
    return np.array(
        [_row(each[:5], each[5], each[6], each[7:9], each[9:]) for each in found], COLUMNS
    )


def _row(
    place: Sequence[int],
    run: str,
    judge: str,
    spent: tuple[float | None, int | None],
    of_run: Sequence[Any],
) -> tuple[Any, ...]:
    """Return the columns of a run, from those that OF_RUN names."""
    created, started, ended, status, rounds, *scores = of_run
    seconds = (ended - started).total_seconds() if started and ended else 0.0
    passed = status == RunStatus.PASSED
    return (*place, run, judge, passed, *scores, created.timestamp(), seconds, rounds, *spent)


def _tasks() -> dict[int, TaskFacts]:
    """Return the tasks that boards show."""
    names = ("pk", "operator__slug", "operator__title", "operator__category", "track")
    shown = Task.objects.exclude(status=Task.Status.DRAFT).order_by()
    found = shown.values_list(*names, "operator__families")
    return {
        pk: TaskFacts(slug, title, category, track, tuple(families))
        for pk, slug, title, category, track, families in found
    }
