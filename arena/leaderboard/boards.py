"""Boards: the ranking of one device, under filters.

A board is computed once for its filters and for a state of the standings. A board is of one device,
because a speedup on a CPU and one on a GPU say different things.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.catalog.models import NATIVE, Hardware, Harness
from arena.filters import unknown_value
from arena.leaderboard.columns import Columns, last_of_each
from arena.leaderboard.rankings import (
    GENERALIZATIONS,
    UNSEEN,
    Ranking,
    Row,
    cells_of,
    rank,
    rank_cells,
)
from arena.leaderboard.results import Snapshot, computed, snapshot

FACETS = ("suite", "hardware", "category", "track", "family", "model", "harness", "experiment")


@dataclass(frozen=True)
class Filters:
    """The runs of a board, and the speedup it is ranked by (`generalization`).

    Without hardware it is the board of the device with the most results. A board is of one suite,
    by default of the tasks of this project; only other pages ask for all of them, by an empty one.
    """

    suite: str = NATIVE
    hardware: str = ""
    category: str = ""
    track: str = ""
    family: str = ""
    model: str = ""
    harness: str = ""
    experiment: str = ""
    generalization: str = UNSEEN
    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        if self.generalization not in GENERALIZATIONS:
            raise ValueError(f"{self.generalization!r} is not one of {(*GENERALIZATIONS,)}")


NO_FILTERS = Filters()


@dataclass(frozen=True)
class Option:
    """One value of a filter: its label and how many results it has under the other filters."""

    value: str
    label: str
    count: int


@dataclass(frozen=True)
class Board:
    """The ranking of one device, with what a reader must know of it.

    `filters` name the device. `size` tasks were attempted by a ranked agent, `common` by all of
    them. `outdated` results are of an older version of their task than others on this board.
    """

    filters: Filters
    device: Hardware | None
    rows: list[Row]
    size: int
    common: int
    judge_versions: list[str]
    outdated: int


def board(filters: Filters = NO_FILTERS, shown: Snapshot | None = None) -> Board:
    """Return the board of one device; the same one until a result changes."""
    now = shown or snapshot()
    return computed(now, ("board", filters), lambda: _board(now, filters))


def boards() -> list[Board]:
    """Return the board of every device that has results, the one with the most first."""
    shown = snapshot()
    devices = options(NO_FILTERS, "hardware", shown)
    return [board(Filters(hardware=each.value), shown) for each in devices if each.count]


def categories(filters: Filters) -> dict[str, Ranking]:
    """Return the ranking of each category of a board, by name."""
    shown = snapshot()
    filters = replace(filters, hardware=board(filters, shown).filters.hardware)

    def compute() -> dict[str, Ranking]:
        chosen = chosen_rows(shown, filters)
        cells = cells_of(shown.table.rows.among(chosen))
        facet = shown.table.facets["category"]
        of_entry = np.zeros(cells.entries, "i4")
        of_entry[cells.entry_of_row] = facet.numbers[chosen]
        return {
            name: rank_cells(cells.among(of_entry == number), shown.agents, filters.generalization)
            for number, name in enumerate(facet.values)
            if (of_entry == number).any()
        }

    return computed(shown, ("categories", filters), compute)


def options(filters: Filters, facet: str, shown: Snapshot | None = None) -> list[Option]:
    """Return the values of a filter, each with its number of results under the other filters."""
    now = shown or snapshot()
    cleared: dict[str, Any] = {facet: ""}
    others = replace(filters, **cleared, generalization=UNSEEN)
    return computed(now, ("options", others, facet), lambda: _options(now, others, facet))


def unknown(filters: Filters, shown: Snapshot | None = None) -> list[str]:
    """Return a sentence for each filter whose value stands for nothing here."""
    now, found = shown or snapshot(), []
    for facet in FACETS:
        value = getattr(filters, facet)
        known = [option.value for option in options(filters, facet, now)] if value else []
        if value and value not in (*known, NATIVE):
            name = {"hardware": "device", "family": "model family"}.get(facet, facet)
            listed = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
            hint = f"Known: {listed}." if known else "There is none yet."
            found.append(f"{unknown_value(name, value)} {hint}")
    return found


def leaders(
    device: str, shown: Snapshot | None = None
) -> dict[int, tuple[str, int, float, float, float]]:
    """Return the fastest result of each task on a device, by task id.

    It is that of a ranked agent with the highest speedup on held-out cases: run, agent, speedup and
    its interval.
    """
    now = shown or snapshot()

    def compute() -> dict[int, tuple[str, int, float, float, float]]:
        rows = results(now, Filters(suite="", hardware=device))
        closed = [pk for pk, agent in now.agents.items() if not agent.open_book]
        timed = rows["passed"] & (rows["unseen_speedup"] > 0) & np.isin(rows["agent"], closed)
        rows = rows.among(timed)
        rows = rows.among(np.lexsort((rows["unseen_speedup"], rows["task"])))
        rows = rows.among(last_of_each(rows["task"]))  # which is the fastest
        speedup = rows["unseen_speedup"]
        ends = [np.fmin(rows["unseen_low"], speedup), np.fmax(rows["unseen_high"], speedup)]
        columns = (rows["run"], rows["agent"], speedup, *ends)
        found = zip(*(column.tolist() for column in columns), strict=True)
        return dict(zip(rows["task"].tolist(), found, strict=True))

    return computed(now, ("leaders", device), compute)


def results(shown: Snapshot, filters: Filters) -> Columns:
    """Return the runs of a board: of each place the newest that the filters leave."""
    return shown.table.rows.among(chosen_rows(shown, filters))


def chosen_rows(shown: Snapshot, filters: Filters) -> NDArray[Any]:
    """Return the positions in the table of the runs of a board."""
    table, mask = shown.table, _mask(shown, filters)
    if filters.experiment or filters.until:
        return table.newest_among(mask)
    return np.asarray(np.flatnonzero(mask & table.newest))


def _mask(shown: Snapshot, filters: Filters) -> NDArray[Any]:
    """Return the rows that the filters leave."""
    mask = shown.table.mask({name: getattr(filters, name) for name in FACETS})
    created = shown.table.rows["created"]
    if filters.since:
        mask &= created >= _begin(filters.since)
    if filters.until:
        mask &= created < _begin(filters.until + timedelta(days=1))
    return mask


def _board(shown: Snapshot, filters: Filters) -> Board:
    devices = options(filters, "hardware", shown)
    slug = filters.hardware or next((option.value for option in devices if option.count), "")
    slug = slug or next((option.value for option in devices), "")
    filters = replace(filters, hardware=slug)
    chosen = chosen_rows(shown, filters)
    rows = shown.table.rows.among(chosen)
    judges = shown.table.facets["judge"].counts(chosen)
    ranking = rank(rows, shown.agents, filters.generalization)
    return Board(
        filters=filters,
        device=next((d for d in shown.catalog.devices.values() if d.slug == slug), None),
        rows=ranking.rows,
        size=ranking.board,
        common=ranking.common,
        judge_versions=[version for version, count in judges.items() if count],
        outdated=_outdated(rows),
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
    rows = chosen_rows(shown, filters)
    if facet == "experiment":
        rows = _newest_by_experiment(shown, filters)
    counts = shown.table.facets[facet].counts(rows)
    catalog = shown.catalog
    if facet == "hardware":
        found = [Option(d.slug, d.name, counts.get(d.slug, 0)) for d in catalog.devices.values()]
        return sorted(found, key=lambda option: (-option.count, option.value))
    if facet in ("suite", "category", "track", "family"):
        listed = computed(shown, ("values", facet), lambda: _values_of_all(shown, facet))
        return [Option(name, name, counts.get(name, 0)) for name in listed]
    titles: dict[str, str] = {}
    if facet == "experiment":
        titles = {each.slug: each.title for each in catalog.experiments.values()}
    elif facet == "model":
        titles = computed(shown, "answered", lambda: _answered(shown))
    elif facet == "harness":
        titles = computed(shown, "harnesses", _harnesses)
    known = set(counts) | (titles.keys() if facet == "harness" else set())
    named = [Option(name, titles.get(name, name), counts.get(name, 0)) for name in known]
    return sorted(named, key=lambda option: option.label.lower())


def _newest_by_experiment(shown: Snapshot, filters: Filters) -> NDArray[Any]:
    """Return the newest run of each place in each experiment."""
    table = shown.table
    chosen = np.flatnonzero(_mask(shown, filters) & (table.rows["experiment"] > 0))
    places, experiments = table.place[chosen], table.rows["experiment"][chosen]
    order = np.lexsort((experiments, places))
    found: NDArray[Any] = chosen[order[last_of_each(places[order], experiments[order])]]
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


def _values_of_all(shown: Snapshot, facet: str) -> list[str]:
    """Return the values of a filter that any task has, with a result or without."""
    tasks = shown.catalog.tasks.values()
    if facet == "family":
        return sorted({family for task in tasks for family in task.families})
    return sorted({getattr(task, facet) for task in tasks})
