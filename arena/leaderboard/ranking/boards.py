"""Boards: the ranking of one device by one version of the judge, under filters.

A board is computed once for its filters and for a state of the standings. A board is of one device,
because a speedup on a CPU and one on a GPU say different things, and of one version of the judge,
because versions measure by different rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.catalog.labels import family_title, suite_titles
from arena.catalog.models import Hardware, Harness
from arena.filters import unknown_value
from arena.leaderboard.ranking.columns import Columns, last_of_each, of_own_judges
from arena.leaderboard.ranking.filters import (
    ALL,
    ARENA,
    EVERY,
    EXTERNAL,
    FACETS,
    HOLDS,
    NO_FILTERS,
    TASK_FACETS,
    Filters,
)
from arena.leaderboard.ranking.holding import counts, only_holding
from arena.leaderboard.ranking.rankings import (
    SPEEDUP,
    UNSEEN,
    Ranking,
    Row,
    cells_of,
    chosen_version,
    counted,
    rank,
    rank_cells,
    silent,
    submitted,
)
from arena.leaderboard.ranking.results import Snapshot, computed, snapshot
from arena.leaderboard.ranking.table import TaskFacts
from arena.leaderboard.ranking.task_sets import TaskSet, planned_tasks, task_set
from arena.runs.scoring.judges import age_of, ages_of
from evaluation.device_kind import GPU

ORIGINS = {ARENA: "Agents of this arena", EXTERNAL: "Agents of users", EVERY: "All agents"}
OF_BOARD = ("hardware", "suite", "track", "judge")
"""Facets of the board of a single track."""
DAY_SECONDS = 86_400
NAMES = {"hardware": "device", "family": "kind of model", "judge": "judge version"}


@dataclass(frozen=True)
class Option:
    """One value of a filter: its label, and a number of results or of runs."""

    value: str
    label: str
    count: int


@dataclass(frozen=True)
class Leader:
    """The fastest result of a task on a device, on held-out cases; `agent` is an id."""

    run: str
    agent: int
    speedup: float
    low: float
    high: float
    noisy: bool
    judge: str

    @property
    def slower(self) -> bool:
        """Return whether it is surely slower than the baseline."""
        return self.high < 1 and not self.noisy


@dataclass(frozen=True)
class Board:
    """The ranking of one device, with what a reader must know of it.

    `filters` name the device, the task set and the judge's version. `tasks` are those of the set by
    their ids, and a rank needs judged runs on `needed` of them. `outdated` results are of an older
    version of their task than others on this board.
    """

    filters: Filters
    device: Hardware | None
    tasks: Mapping[int, TaskFacts]
    needed: int
    rows: list[Row]
    outdated: int

    @property
    def size(self) -> int:
        return len(self.tasks)

    @property
    def sorted_tasks(self) -> list[TaskFacts]:
        return sorted(self.tasks.values(), key=lambda task: task.slug)

    @property
    def ranked(self) -> list[Row]:
        return [row for row in self.rows if row.rank]


def board(filters: Filters = NO_FILTERS, shown: Snapshot | None = None) -> Board:
    """Return the board of one device; the same one until a result changes."""
    now = shown or snapshot()
    found = computed(now, ("board", filters), lambda: _board(now, filters))
    return computed(now, ("board", found.filters), lambda: found)


def boards(shown: Snapshot, origin: str = NO_FILTERS.origin) -> list[Board]:
    """Return the board of every device that has results: GPUs first, and those with the most."""
    devices = options(Filters(origin=origin), "hardware", shown)
    found = [each.value for each in devices if each.count]
    return [board(Filters(hardware=value, origin=origin), shown) for value in found]


def boards_of_tracks(of: Board, shown: Snapshot) -> list[Board]:
    """Return the boards of single tracks that have a ranked agent, of the same device.

    The one with the most results comes first.
    """
    filters = Filters(hardware=of.filters.hardware, origin=of.filters.origin)

    def compute() -> list[Board]:
        tracks = sorted(options(filters, "track", shown), key=lambda option: -option.count)
        found = [board(replace(filters, track=each.value), shown) for each in tracks if each.count]
        return [each for each in found if each.ranked]

    return computed(shown, ("boards of tracks", filters), compute)


def boards_of_runs(agent: int, origin: str, shown: Snapshot) -> list[Board]:
    """Return the boards of single tracks that an agent, by its id, has judged runs on.

    Of a device, suite and track it is that of the newest judge. The one with the most of its runs
    comes first.
    """
    key = ("boards of runs", agent, origin)
    return computed(shown, key, lambda: _boards_of_runs(agent, origin, shown))


def _boards_of_runs(agent: int, origin: str, shown: Snapshot) -> list[Board]:
    rows, facets = shown.table.rows, [shown.table.facets[name] for name in OF_BOARD]
    own = np.flatnonzero(shown.table.newest & (rows["agent"] == agent))
    numbers, counts = np.unique(
        np.stack([facet.numbers[own] for facet in facets]), axis=1, return_counts=True
    )
    newest: dict[tuple[str, ...], tuple[str, int]] = {}
    for column, count in zip(numbers.T.tolist(), counts.tolist(), strict=True):
        named = [facet.values[n] if n >= 0 else "" for facet, n in zip(facets, column, strict=True)]
        *place, judge = named
        if all(named) and age_of(judge) >= age_of(newest.get((*place,), ("", 0))[0]):
            newest[(*place,)] = judge, count
    most = sorted(newest.items(), key=lambda each: -each[1][1])
    filters = (
        Filters(hardware=device, suite=suite, track=track, judge=judge, origin=origin)
        for (device, suite, track), (judge, _) in most
    )
    return [board(each, shown) for each in filters]


def categories(filters: Filters) -> dict[str, Ranking]:
    """Return the ranking of each category of a board, by name."""
    shown = snapshot()
    of = board(filters, shown)
    filters = of.filters

    def compute() -> dict[str, Ranking]:
        chosen = chosen_rows(shown, filters)
        chosen = chosen[counted(shown.table.rows.among(chosen), of.tasks)]
        cells = cells_of(only_holding(shown.table.rows.among(chosen), filters.holds))
        facet = shown.table.facets["category"]
        of_entry = np.zeros(cells.entries, "i4")
        of_entry[cells.entry_of_row] = facet.numbers[chosen]
        sizes: dict[str, int] = {}
        for each in of.tasks.values():
            sizes[each.category] = sizes.get(each.category, 0) + 1
        return {
            name: rank_cells(
                cells.among(of_entry == number),
                shown.agents,
                sizes[name],
                filters.generalization,
                filters.score,
            )
            for number, name in enumerate(facet.values)
            if (of_entry == number).any()
        }

    return computed(shown, ("categories", filters), compute)


def options(filters: Filters, facet: str, shown: Snapshot | None = None) -> list[Option]:
    """Return the values of a filter, each with its number of results under the other filters.

    Devices and versions of the judge depend on each other: each is counted without the other.
    Devices with results come first, and of these GPUs and then those with the most.
    """
    now = shown or snapshot()
    others = _cleared(_counting(filters), facet)
    if facet == "hardware":
        others = replace(others, judge="")
    return computed(now, ("options", others, facet), lambda: _options(now, others, facet))


def choices(asked: Filters, facet: str, shown: Snapshot) -> list[Option]:
    """Return the values of a filter, each with the number of runs on its board.

    That is the board which replaces the value in what is `asked`, and may be of another version of
    the judge.
    """
    of = replace(asked, generalization=UNSEEN, score=SPEEDUP, holds="")  # these leave all runs

    def on_board(part: Snapshot, value: str) -> int:
        chosen: dict[str, Any] = {facet: value}
        filters, _, over = _resolved(part, replace(of, **chosen))
        return len(_listed_rows(part, filters, over.tasks))

    def compute() -> list[Option]:
        found = options(of, facet, shown)
        part = _part(shown, replace(_cleared(of, facet), judge=""))
        return [replace(option, count=on_board(part, option.value)) for option in found]

    return computed(shown, ("choices", of, facet), compute)


def unknown(filters: Filters, shown: Snapshot | None = None) -> list[str]:
    """Return a sentence for each filter whose value stands for nothing here."""
    now, found = shown or snapshot(), []
    for facet in FACETS:
        value = getattr(filters, facet)
        known = [option.value for option in options(filters, facet, now)] if value else []
        if value and value not in (*known, getattr(NO_FILTERS, facet)):
            name = NAMES.get(facet, facet)
            listed = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
            hint = f"Known: {listed}." if known else "There is none yet."
            found.append(f"{unknown_value(name, value)} {hint}")
    return found


def leaders(device: str, shown: Snapshot | None = None, judge: str = "") -> dict[int, Leader]:
    """Return the fastest result of each task on a device, by task id.

    It is that of an agent of this arena, without reference solutions, by the named `judge` or the
    newest that has a result (see `of_own_judges`), with the highest lower end on held-out cases.
    """
    now = shown or snapshot()

    def compute() -> dict[int, Leader]:
        rows = results(now, Filters(suite="", hardware=device, judge=judge))
        closed = [pk for pk, agent in now.agents.items() if not agent.open_book]
        timed = rows["passed"] & (rows["unseen_speedup"] > 0) & np.isin(rows["agent"], closed)
        rows = rows.among(timed)
        rows = rows.among(of_own_judges(rows))
        speedup = rows["unseen_speedup"]
        low, high = np.fmin(rows["unseen_low"], speedup), np.fmax(rows["unseen_high"], speedup)
        order = np.lexsort((low, ages_of(rows["judge"]), rows["task"]))
        best = order[last_of_each(rows["task"][order])]
        columns = (rows["run"], rows["agent"], speedup, low, high, rows["noisy"], rows["judge"])
        found = zip(*(column[best].tolist() for column in columns), strict=True)
        tasks = rows["task"][best].tolist()
        return {task: Leader(*values) for task, values in zip(tasks, found, strict=True)}

    return computed(now, ("leaders", device, judge), compute)


def tried_tasks(device: str) -> frozenset[int]:
    """Return the ids of the tasks that agents which `leaders` counts have tried on a device."""
    now = snapshot()

    def compute() -> frozenset[int]:
        rows = results(now, Filters(suite="", hardware=device))
        closed = [pk for pk, agent in now.agents.items() if not agent.open_book]
        return frozenset(rows["task"][submitted(rows) & np.isin(rows["agent"], closed)].tolist())

    return computed(now, ("tried", device), compute)


def results(shown: Snapshot, filters: Filters) -> Columns:
    """Return the runs of a board: of each place the newest that the filters leave."""
    rows = shown.table.rows.among(chosen_rows(shown, filters))
    return only_holding(rows, filters.holds)


def holding_options(filters: Filters, shown: Snapshot | None = None) -> list[Option]:
    """Return the classes of results by hidden sizes, each with its number on the board."""
    now, every = shown or snapshot(), replace(filters, holds="")

    def compute() -> dict[str, int]:
        of, _, over = _resolved(now, every)
        return counts(_listed(now, of, over.tasks))

    found = computed(now, ("holding", every), compute)
    return [Option(name, label, found[name]) for name, label in HOLDS.items()]


def _counting(filters: Filters) -> Filters:
    """Return the filters without those that leave the number of results as it is."""
    return replace(filters, generalization=UNSEEN, score=SPEEDUP, task_set=ALL, holds="")


def _cleared(filters: Filters, facet: str) -> Filters:
    """Return the filters without one of them."""
    empty: dict[str, Any] = {facet: EVERY if facet == "origin" else ""}
    return replace(filters, **empty)


def _part(shown: Snapshot, filters: Filters) -> Snapshot:
    """Return the results that some filters leave, for boards that add to these filters.

    What is computed for such a board is the same of the part and of the whole, so both keep it.
    """
    return replace(shown, table=shown.table.among(np.flatnonzero(_mask(shown, filters))))


def chosen_rows(shown: Snapshot, filters: Filters) -> NDArray[Any]:
    """Return the positions in the table of the runs of a board."""
    table, mask = shown.table, _mask(shown, filters)
    of_several = bool(filters.judge) and len(table.facets["judge"].values) > 1
    if filters.experiment or filters.until or of_several:
        return table.newest_among(mask)
    return np.asarray(np.flatnonzero(mask & table.newest))


def _mask(shown: Snapshot, filters: Filters) -> NDArray[Any]:
    """Return the rows that the filters leave."""
    mask = shown.table.mask(filters.by_facet)
    created = shown.table.rows["created"]
    if filters.since:
        mask &= created >= _begin(filters.since)
    if filters.until:
        mask &= created < _begin(filters.until) + DAY_SECONDS  # of the last date, too
    return mask


def _board(shown: Snapshot, asked: Filters) -> Board:
    filters, device, over = _resolved(shown, asked)
    rows = _listed(shown, filters, over.tasks)
    ranking = rank(rows, shown.agents, over.tasks, filters.generalization, filters.score)
    return Board(
        filters=filters,
        device=device,
        tasks={pk: shown.catalog.tasks[pk] for pk in over.tasks},
        needed=ranking.needed,
        rows=ranking.rows,
        outdated=_outdated(rows.among(submitted(rows))),
    )


def _resolved(shown: Snapshot, filters: Filters) -> tuple[Filters, Hardware | None, TaskSet]:
    """Return the filters with what a board chooses for empty ones, its device and its tasks."""
    slug = filters.hardware
    if not slug:
        devices = options(filters, "hardware", shown)
        slug = next((option.value for option in devices if option.count), "")
        slug = slug or next((option.value for option in devices), "")
    device = next((each for each in shown.catalog.devices.values() if each.slug == slug), None)
    filters = replace(filters, hardware=slug)
    over = _task_set(shown, filters, device.kind if device else "")
    filters = replace(filters, task_set=over.name)
    filters = replace(filters, judge=filters.judge or _judge(shown, filters, over.tasks))
    return filters, device, over


def _listed(shown: Snapshot, filters: Filters, tasks: Collection[int]) -> Columns:
    """Return the runs of a board, and those of agents that submitted nothing."""
    rows = shown.table.rows.among(_listed_rows(shown, filters, tasks))
    return only_holding(rows, filters.holds)


def _listed_rows(shown: Snapshot, filters: Filters, tasks: Collection[int]) -> NDArray[Any]:
    """Return the positions in the table of the rows that a board lists, in order.

    Agents that submitted nothing stand on the board of the judge that was in use then.
    """
    rows = shown.table.rows
    judged = chosen_rows(shown, filters)
    judged = judged[counted(rows.among(judged), tasks)]
    others = chosen_rows(shown, replace(filters, judge=""))
    others = others[silent(rows.among(others), tasks)]  # none of them counts
    if filters.judge:
        in_use = shown.table.facets["judge_in_use"].among(others)
        others = others[in_use.mask(filters.judge)]
    return np.sort(np.concatenate([judged, others]))


def _task_set(shown: Snapshot, filters: Filters, kind: str) -> TaskSet:
    planned = None
    if name := filters.experiment:
        planned = computed(shown, ("planned tasks", name), lambda: planned_tasks(name))
    return task_set(filters, shown.catalog, kind, planned)


def _judge(shown: Snapshot, filters: Filters, tasks: Collection[int]) -> str:
    """Return the version of the judge of a board whose filters name none."""
    counts = shown.table.facets["judge"].counts(np.flatnonzero(_mask(shown, filters)))
    versions = sorted((name for name, count in counts.items() if count), key=age_of)
    return chosen_version(
        {each: partial(results, shown, replace(filters, judge=each)) for each in versions},
        shown.agents,
        tasks,
    )


def _outdated(rows: Columns) -> int:
    """Return the number of runs of an older version of their task than another run."""
    tasks, versions = rows["task"], rows["task_version"]
    order = np.lexsort((versions, tasks))
    tasks, versions = tasks[order], versions[order]
    last = np.flatnonzero(last_of_each(tasks))
    newest = np.repeat(versions[last], np.diff(last, prepend=-1))
    return int((versions != newest).sum())


def _begin(day: date) -> float:
    return datetime.combine(day, time(), UTC).timestamp()


def _options(shown: Snapshot, filters: Filters, facet: str) -> list[Option]:
    """Return the options of a filter that is not set in `filters`."""
    if facet in ("experiment", "judge"):
        rows = _newest_by(shown, filters, facet)
    else:
        rows = chosen_rows(shown, filters)
    counts = shown.table.facets[facet].counts(rows)
    catalog = shown.catalog
    if facet == "hardware":
        devices = catalog.devices.values()
        found = [Option(d.slug, d.name, counts.get(d.slug, 0)) for d in devices]
        gpus = {device.slug for device in devices if device.kind == GPU}
        return sorted(found, key=lambda o: (not o.count, o.value not in gpus, -o.count, o.value))
    if facet == "origin":
        counts[EVERY] = len(rows)
        return [Option(name, label, counts.get(name, 0)) for name, label in ORIGINS.items()]
    if facet == "judge":
        newest = sorted(counts, key=age_of)[::-1]
        return [Option(name, f"Judge {name}", counts[name]) for name in newest]
    if facet in TASK_FACETS:
        listed = computed(shown, ("values", facet), lambda: _values_of_all(shown, facet))
        return [Option(name, label, counts.get(name, 0)) for name, label in listed.items()]
    titles: dict[str, str] = {}
    if facet == "experiment":
        of_users = set(shown.table.rows["experiment"][~shown.table.rows["by_arena"]].tolist())
        marks = {pk: ", of a user" if pk in of_users else "" for pk in catalog.experiments}
        titles = {e.slug: f"{e.title}{marks[pk]}" for pk, e in catalog.experiments.items()}
    elif facet == "model":
        titles = computed(shown, "answered", lambda: _answered(shown))
    elif facet == "harness":
        titles = computed(shown, "harnesses", _harnesses)
    known = set(counts) | (titles.keys() if facet == "harness" else set())
    named = [Option(name, titles.get(name, name), counts.get(name, 0)) for name in known]
    return sorted(named, key=lambda option: option.label.lower())


def _newest_by(shown: Snapshot, filters: Filters, facet: str) -> NDArray[Any]:
    """Return the newest run of each place for each value of a filter, such as an experiment."""
    numbers = shown.table.facets[facet].numbers
    chosen = np.flatnonzero(_mask(shown, filters) & (numbers >= 0))
    places, values = shown.table.place[chosen], numbers[chosen]
    order = np.lexsort((values, places))
    found: NDArray[Any] = chosen[order[last_of_each(places[order], values[order])]]
    return found


def _answered(shown: Snapshot) -> dict[str, str]:
    """Return labels of the models that answered in place of those that were asked for."""
    rows = shown.table.rows
    other = rows["answered"] != ""
    pairs = set(zip(rows["answered"][other], rows["agent"][other].tolist(), strict=True))
    asked: dict[str, set[str]] = {}
    for answered, agent in pairs:
        asked.setdefault(answered, set()).add(shown.agents[agent].model)
    return {name: f"{name}, asked for {', '.join(sorted(of))}" for name, of in asked.items()}


def _harnesses() -> dict[str, str]:
    return dict(Harness.objects.values_list("name", "title"))


def _values_of_all(shown: Snapshot, facet: str) -> dict[str, str]:
    """Return the values of a filter that any task has, with a result or without, and labels."""
    tasks = shown.catalog.tasks.values()
    if facet == "family":
        return {name: family_title(name) for name in sorted({f for t in tasks for f in t.families})}
    labels = suite_titles() if facet == "suite" else {}
    return {v: labels.get(v, v) for v in sorted({str(getattr(task, facet)) for task in tasks})}
