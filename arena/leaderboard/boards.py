"""Boards: the ranking of one device, under filters.

A board is computed once for its filters and for a state of the standings. A board is of one device,
because a speedup on a CPU and one on a GPU say different things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from arena.catalog.models import Agent, Hardware, Harness
from arena.leaderboard.rankings import GENERALIZATIONS, UNSEEN, Ranking, Row, rank
from arena.leaderboard.results import (
    Rows,
    Snapshot,
    newest_of,
    place_numbers,
    rows_of,
    snapshot,
)
from arena.runs.models import Experiment, Run

T = TypeVar("T")
MAX_COMPUTED = 512
"""Boards and parts of boards that are kept for one state of the standings."""
FACETS = ("hardware", "category", "track", "family", "model", "harness", "experiment")


@dataclass(frozen=True)
class Filters:
    """The runs of a board, and the speedup it is ranked by (`generalization`).

    Without hardware it is the board of the device with the most results.
    """

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
        rows = results(shown, filters)
        tasks, of_task = np.unique(rows["task"], return_inverse=True)
        found = np.array([shown.tasks[pk].category for pk in tasks.tolist()], "O")
        return {
            name: rank(rows[(found == name)[of_task]], shown.agents, filters.generalization)
            for name in sorted(set(found.tolist()))
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
        if value and value not in known:
            name = {"hardware": "device", "family": "model family"}.get(facet, facet)
            listed = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
            hint = f"Known: {listed}." if known else "There is none yet."
            found.append(f"There is no {name} “{value[:100]}” here. {hint}")
    return found


def leaders(device: str) -> dict[int, tuple[str, int, float, float, float]]:
    """Return the fastest result of each task on a device, by task id.

    It is that of a ranked agent with the highest speedup on held-out cases: run, agent, speedup and
    its interval.
    """
    shown = snapshot()

    def compute() -> dict[int, tuple[str, int, float, float, float]]:
        rows = results(shown, Filters(hardware=device))
        closed = [pk for pk, agent in shown.agents.items() if not agent.open_book]
        timed = rows["passed"] & (rows["unseen_speedup"] > 0) & np.isin(rows["agent"], closed)
        rows = rows[timed]
        rows = rows[np.argsort(rows["unseen_speedup"], kind="stable")]
        speedup = rows["unseen_speedup"]
        ends = [np.fmin(rows["unseen_low"], speedup), np.fmax(rows["unseen_high"], speedup)]
        columns = (rows["run"], rows["agent"], speedup, *ends)
        found = zip(*(column.tolist() for column in columns), strict=True)
        return dict(zip(rows["task"].tolist(), found, strict=True))  # the fastest comes last

    return computed(shown, ("leaders", device), compute)


def results(shown: Snapshot, filters: Filters) -> Rows:
    """Return the runs of a board: of each place the newest that the filters leave."""
    rows = _dated(shown, filters)
    if filters.experiment:
        rows = computed(
            shown,
            ("experiment", filters.experiment, filters.since, filters.until),
            lambda: _of_experiment(shown, filters),
        )
    for facet, value in asdict(filters).items():
        if value and facet in MASKS:
            rows = rows[MASKS[facet](shown, rows, value)]
    return rows


def computed(shown: Snapshot, key: Any, compute: Callable[[], T]) -> T:
    """Return what was computed under this key for this state, or compute it."""
    if key not in shown.computed:
        if len(shown.computed) >= MAX_COMPUTED:
            shown.computed.pop(next(iter(shown.computed)), None)
        shown.computed[key] = compute()
    found: T = shown.computed[key]
    return found


def _board(shown: Snapshot, filters: Filters) -> Board:
    devices = options(filters, "hardware", shown)
    slug = filters.hardware or next((option.value for option in devices if option.count), "")
    slug = slug or next((option.value for option in devices), "")
    filters = replace(filters, hardware=slug)
    rows = results(shown, filters)
    ranking = rank(rows, shown.agents, filters.generalization)
    newest: dict[int, int] = {}
    versions = list(zip(rows["task"].tolist(), rows["task_version"].tolist(), strict=True))
    for task, version in versions:
        newest[task] = max(newest.get(task, 0), version)
    return Board(
        filters=filters,
        device=next((d for d in shown.devices.values() if d.slug == slug), None),
        rows=ranking.rows,
        size=ranking.board,
        common=ranking.common,
        judge_versions=sorted(set(rows["judge"].tolist()) - {""}),
        outdated=sum(version != newest[task] for task, version in versions),
    )


def _dated(shown: Snapshot, filters: Filters) -> Rows:
    """Return the newest run of each place between two dates.

    A place whose newest run is too late may have an older one, which is read from the runs.
    """
    rows = shown.rows
    if device := filters.hardware:
        every = shown.rows
        rows = computed(shown, ("device", device), lambda: every[_of_device(shown, every, device)])
    begin, end = _begin(filters.since), _begin(filters.until and filters.until + timedelta(days=1))
    if end is not None and not filters.experiment:
        late = rows["created"] >= end
        older = computed(shown, "older", _older)
        older = older[older["created"] < end]
        of_late, of_older = place_numbers(rows[late], older)
        older, of_older = older[np.isin(of_older, of_late)], of_older[np.isin(of_older, of_late)]
        newest = np.unique(of_older[::-1], return_index=True)[1]
        rows = np.concatenate([rows[~late], older[::-1][newest]])
    if begin is not None:
        rows = rows[rows["created"] >= begin]
    return rows


def _older() -> Rows:
    """Return the runs that count and stand for no place now, oldest first."""
    return rows_of(Run.objects.counted().filter(standing=None).order_by("created_at", "id"))


def _of_experiment(shown: Snapshot, filters: Filters) -> Rows:
    runs = Run.objects.counted().filter(experiment__slug=filters.experiment)
    dates = {"created_at__date__gte": filters.since, "created_at__date__lte": filters.until}
    return newest_of(runs.filter(**{lookup: day for lookup, day in dates.items() if day}))


def _begin(day: date | None) -> float | None:
    return datetime.combine(day, time(), UTC).timestamp() if day else None


def _options(shown: Snapshot, filters: Filters, facet: str) -> list[Option]:
    if facet == "experiment":
        return computed(shown, "experiments", _experiments)
    rows = results(shown, filters)
    counts: Counter[str] = Counter()
    if facet in ("category", "track", "family"):
        for task, count in _counted(rows["task"]):
            facts = shown.tasks[task]
            values = facts.families if facet == "family" else (getattr(facts, facet),)
            counts.update(dict.fromkeys(values, count))
        known = {name for t in shown.tasks.values() for name in _values(t, facet)}
        return [Option(name, name, counts[name]) for name in sorted(known)]
    if facet == "hardware":
        counts.update({shown.devices[pk].slug: n for pk, n in _counted(rows["hardware"])})
        found = [Option(d.slug, d.name, counts[d.slug]) for d in shown.devices.values()]
        return sorted(found, key=lambda option: (-option.count, option.value))
    attribute = "model" if facet == "model" else "adapter"
    for agent, count in _counted(rows["agent"]):
        counts[getattr(shown.agents[agent], attribute)] += count
    titles = dict(Harness.objects.values_list("name", "title")) if facet == "harness" else {}
    known = {getattr(agent, attribute) for agent in _shown_agents(shown)} - {""} | titles.keys()
    named = [Option(name, titles.get(name, name), counts[name]) for name in known]
    return sorted(named, key=lambda option: option.label.lower())


def _experiments() -> list[Option]:
    """Return the experiments with a result that counts."""
    judged = Run.objects.counted().exclude(experiment=None).order_by()
    counts = Counter(judged.values_list("experiment", flat=True))
    found = Experiment.objects.filter(pk__in=counts).values_list("pk", "slug", "title")
    return [Option(slug, title, counts[pk]) for pk, slug, title in found]


def _shown_agents(shown: Snapshot) -> list[Agent]:
    return [shown.agents[pk] for pk in np.unique(shown.rows["agent"]).tolist()]


def _values(facts: Any, facet: str) -> tuple[str, ...]:
    return tuple(facts.families) if facet == "family" else (getattr(facts, facet),)


def _counted(column: NDArray[Any]) -> list[tuple[int, int]]:
    values, counts = np.unique(column, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def _of_tasks(shown: Snapshot, rows: Rows, facet: str, value: str) -> NDArray[Any]:
    chosen = [pk for pk, facts in shown.tasks.items() if value in _values(facts, facet)]
    return np.isin(rows["task"], chosen)


def _of_agents(shown: Snapshot, rows: Rows, attribute: str, value: str) -> NDArray[Any]:
    chosen = [pk for pk, agent in shown.agents.items() if getattr(agent, attribute) == value]
    return np.isin(rows["agent"], chosen)


def _of_device(shown: Snapshot, rows: Rows, value: str) -> NDArray[Any]:
    chosen = [pk for pk, device in shown.devices.items() if device.slug == value]
    return np.isin(rows["hardware"], chosen)


Mask = Callable[[Snapshot, Rows, str], NDArray[Any]]
MASKS: Mapping[str, Mask] = {
    "hardware": _of_device,
    "category": lambda shown, rows, value: _of_tasks(shown, rows, "category", value),
    "track": lambda shown, rows, value: _of_tasks(shown, rows, "track", value),
    "family": lambda shown, rows, value: _of_tasks(shown, rows, "family", value),
    "model": lambda shown, rows, value: _of_agents(shown, rows, "model", value),
    "harness": lambda shown, rows, value: _of_agents(shown, rows, "adapter", value),
}
