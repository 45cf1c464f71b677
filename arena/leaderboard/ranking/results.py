"""The judged runs that rankings read, as columns in memory.

A web process keeps the standings of all boards and reads only the rows that have changed since, so
that a request costs a look at their version and arithmetic on columns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np
from django.db.models import Q
from numpy.typing import NDArray

from arena.catalog.models import (
    DIRECT,
    NATIVE,
    Agent,
    Hardware,
    Task,
    TaskVersion,
)
from arena.leaderboard.ranking.columns import (
    COLUMNS,
    PLACE_COLUMNS,
    Columns,
    Rows,
    place_numbers,
    replaced,
)
from arena.leaderboard.ranking.table import Catalog, ExperimentFacts, Table, TaskFacts, table_of
from arena.runs.models import Experiment, Run, Standing
from arena.runs.querysets import RunQuerySet, memory_ratio_of
from arena.runs.scores import SCORES
from arena.runs.scoring.standings import State, plus, standing_runs, state
from arena.runs.states import RunStatus
from evaluation.judge.kinds import kind_of, kinds

T = TypeVar("T")

OF_RUN = (
    "by_arena", "experiment", "created_at", "started_at", "ended_at", "status",
    "rounds", "judge_version", "answered_by", "noisy", *SCORES,
)  # fmt: skip
MAX_COMPUTED = 512
"""Boards and parts of boards that are kept for one state of the standings."""
MISSING = object()
MAX_PLACES_READ = 50
"""Changed places whose older runs are read alone."""
CATALOG_SECONDS = 30
"""After this time tasks and agents are read again, whoever has changed them."""


@dataclass(frozen=True)
class Snapshot:
    """The results of all boards at one state, and what was computed from them so far.

    `every` has all standings, `older` the other runs that can stand for their place. `table` has
    the runs of both that count: none is of a draft task or of an agent in quarantine.
    """

    state: State
    every: Rows
    older: Rows
    catalog: Catalog
    table: Table
    read_at: float
    computed: dict[Any, Any] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """Return the standings that count."""
        rows: Rows = self.every[_counts(self.catalog, self.every)]
        return rows

    @property
    def agents(self) -> Mapping[int, Agent]:
        return self.catalog.agents


_kept: Snapshot | None = None
_lock = threading.Lock()
_keeping = threading.Lock()
"""Held where `computed` changes what is kept, and not while it computes."""


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


def computed(shown: Snapshot, key: Any, compute: Callable[[], T]) -> T:
    """Return what was computed under this key for this state, or compute it.

    Of too many, the one that was not read for the longest time is dropped.
    """
    kept = shown.computed
    with _keeping:
        found: Any = kept.pop(key, MISSING)  # another thread may compute it meanwhile
    if found is MISSING:
        found = compute()
    with _keeping:
        kept[key] = found
        if len(kept) > MAX_COMPUTED:
            del kept[next(iter(kept))]
    return cast(T, found)


def rows_of(runs: RunQuerySet) -> Rows:
    """Return these runs as rows, with the cost of the broken runs that they continue."""
    names = ("task_version__task", "agent", "hardware", "repeat", "task_version", "pk")
    measured = runs.annotate(memory_ratio=memory_ratio_of("pk"))
    found = list(measured.values_list(*names, "cost_usd", "tokens", *OF_RUN, "memory_ratio"))
    continuing = Run.objects.exclude(continues=None).order_by()
    columns = ("pk", "continues", "continues__cost_usd", "continues__tokens")
    before = {pk: rest for pk, *rest in continuing.values_list(*columns)}
    rows = []
    for each in found:
        place, run, spent, rest = each[:5], each[5], each[6:8], each[8:]
        previous = run
        while previous in before:
            previous, *more = before[previous]
            spent = plus(spent, (more[0], more[1]))
        rows.append(_row(place, run, spent, 0, rest))
    return np.array(rows, COLUMNS)


def _read(now: State, before: Snapshot | None) -> Snapshot:
    """Read what has changed since `before`, or all rows."""
    catalog = _catalog()
    if before and before.state == now and before.catalog.values == catalog.values:
        return replace(before, read_at=time.monotonic())
    if before and before.state.epoch == now.epoch and before.state.number <= now.number:
        every, older = before.every, before.older
        since = before.state.number
        if now.removed > since:
            left, held = place_numbers(_places(), every)
            every = every[np.isin(held, left)]
        if now.number > since:
            changed = _standings(above=since)
            every = replaced(every, changed)
            older = _older_again(every, older, changed)
    else:
        every, older = _standings(above=-1), _older()
    counted = np.concatenate([older, every])
    chosen = np.flatnonzero(_counts(catalog, counted))
    table = table_of(Columns(counted, chosen), catalog)
    return Snapshot(now, every, older, catalog, table, time.monotonic())


def _counts(catalog: Catalog, rows: Rows) -> NDArray[Any]:
    """Return which rows are of no draft task and of no agent that boards leave out."""
    agents = catalog.agents.items()
    counted = [pk for pk, a in agents if a.quarantined_at is None and a.adapter != DIRECT]
    return np.isin(rows["task"], list(catalog.tasks)) & np.isin(rows["agent"], counted)


def _older(*conditions: Q) -> Rows:
    """Return the runs that can stand for a place and do not, oldest first."""
    return rows_of(standing_runs().filter(*conditions, standing=None).order_by("created_at", "id"))


def _older_again(every: Rows, older: Rows, changed: Rows) -> Rows:
    """Return `older` with the rows of the changed places read anew."""
    if len(changed) > MAX_PLACES_READ:
        return _older()
    of_every, of_older, of_changed = place_numbers(every, older, changed)
    left = older[np.isin(of_older, of_every) & ~np.isin(of_older, of_changed)]
    names = {"task_version__task": "task", "agent": "agent", "hardware": "hardware"}
    chosen = {f"{n}__in": set(changed[column].tolist()) for n, column in names.items()}
    read = _older(Q(**chosen))
    of_read, of_changed = place_numbers(read, changed)
    return np.concatenate([left, read[np.isin(of_read, of_changed)]])


def _places() -> Rows:
    """Return the places that have a standing."""
    found = np.array(list(Standing.objects.order_by().values_list(*PLACE_COLUMNS)), "i8")
    rows = np.zeros(len(found), COLUMNS)
    for name, column in zip(PLACE_COLUMNS, found.reshape(-1, len(PLACE_COLUMNS)).T, strict=True):
        rows[name] = column
    return rows


def _standings(above: int) -> Rows:
    names = (*PLACE_COLUMNS, "run__task_version", "run", "cost_usd", "tokens")
    rows = Standing.objects.filter(version__gt=above).order_by("pk")
    rows = rows.annotate(memory_ratio=memory_ratio_of("run"))
    of_run = *(f"run__{name}" for name in OF_RUN), "memory_ratio"
    found = rows.values_list(*names, "version", *of_run)
    return np.array(
        [_row(each[:5], each[5], each[6:8], each[8], each[9:]) for each in found], COLUMNS
    )


def _row(
    place: Sequence[int],
    run: str,
    spent: tuple[float | None, int | None],
    version: int,
    of_run: Sequence[Any],
) -> tuple[Any, ...]:
    """Return the columns of a run, from those that OF_RUN names and its ratio of memory."""
    by_arena, experiment, created, started, ended, *rest = of_run
    status, rounds, judge, answered, noisy, *scores = rest
    seconds = (ended - started).total_seconds() if started and ended else 0.0
    passed = status == RunStatus.PASSED
    times = created.timestamp(), seconds, rounds
    facts = run, judge, answered, by_arena, passed, noisy
    return (*place, experiment or 0, version, *facts, *scores, *times, *spent)


def _catalog() -> Catalog:
    experiments = Experiment.objects.order_by().values_list("pk", "slug", "title")
    return Catalog(
        _tasks(),
        Agent.objects.select_related("owner").in_bulk(),
        Hardware.objects.in_bulk(),
        {pk: ExperimentFacts(slug, title) for pk, slug, title in experiments},
    )


def _tasks() -> dict[int, TaskFacts]:
    """Return the tasks that boards show."""
    names = ("pk", "operator__slug", "operator__title", "operator__category", "track")
    more = ("operator__families", "operator__level", "operator__suite", "status", "in_tree")
    shown = Task.objects.exclude(status=Task.Status.DRAFT).order_by()
    described = _described()
    return {
        pk: TaskFacts(
            operator=slug,
            title=title,
            category=category,
            track=track,
            families=tuple(families),
            level=level,
            suite=suite or NATIVE,
            kinds=kind_of(track).device_kinds(track, described.get(pk, {})),
            runnable=status == Task.Status.PUBLISHED and in_tree,
        )
        for pk, slug, title, category, track, families, level, suite, status, in_tree in (
            shown.values_list(*names, *more)
        )
    }


def _described() -> dict[int, dict[str, Any]]:
    """Return what the device kinds of tasks depend on beside their track, by task id."""
    tracks = [kind.track for kind in kinds() if kind.track]
    tasks = Task.objects.filter(track__in=tracks).order_by()
    newest = tasks.annotate(newest=TaskVersion.newest_of("pk")).values("newest")
    found = TaskVersion.objects.filter(pk__in=newest).order_by()
    paths = (f"public__{track}__kinds" for track in tracks)
    rows = found.values_list("task", "public__kind", *paths)
    return {
        pk: {"kind": kind, **{t: {"kinds": n} for t, n in zip(tracks, kinds_of, strict=True)}}
        for pk, kind, *kinds_of in rows
    }
