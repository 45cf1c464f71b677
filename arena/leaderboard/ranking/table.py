"""The runs that boards count, with the number of the value that each has of every filter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.catalog.models import EXTERNAL, Agent, Hardware
from arena.leaderboard.ranking import filters
from arena.leaderboard.ranking.columns import Columns, last_of_each, place_numbers

Mask = NDArray[Any]


@dataclass(frozen=True)
class TaskFacts:
    """The columns of a task that boards read."""

    operator: str
    title: str
    category: str
    track: str
    families: tuple[str, ...]
    level: int
    suite: str
    kinds: tuple[str, ...]
    """Kinds of device that can judge it."""
    runnable: bool
    """Whether it is published and its files are there."""

    @property
    def slug(self) -> str:
        return f"{self.operator}/{self.track}"

    def values_of(self, facet: str) -> tuple[str, ...]:
        """Return its values of a filter that selects tasks."""
        return self.families if facet == "family" else (str(getattr(self, facet)),)


@dataclass(frozen=True)
class ExperimentFacts:
    """The columns of an experiment that boards read."""

    slug: str
    title: str


@dataclass(frozen=True)
class Catalog:
    """The columns of tasks, agents, devices and experiments that boards read, by their ids."""

    tasks: Mapping[int, TaskFacts]
    agents: Mapping[int, Agent]
    devices: Mapping[int, Hardware]
    experiments: Mapping[int, ExperimentFacts]

    @cached_property
    def runnable(self) -> frozenset[int]:
        """Return the ids of the tasks that can be judged."""
        return frozenset(pk for pk, task in self.tasks.items() if task.runnable)

    def tasks_with(self, facet: str, value: str) -> frozenset[int]:
        """Return the ids of the tasks with a value of a filter, or for a `kind` of device."""
        return self._by_value.get((facet, value), frozenset())

    def named(self, slugs: Iterable[str]) -> frozenset[int]:
        """Return the ids of the tasks with these slugs, as far as there are some."""
        return frozenset(self._by_slug[slug] for slug in slugs if slug in self._by_slug)

    @cached_property
    def _by_value(self) -> dict[tuple[str, str], frozenset[int]]:
        found: dict[tuple[str, str], set[int]] = defaultdict(set)
        for pk, task in self.tasks.items():
            values = {facet: task.values_of(facet) for facet in filters.TASK_FACETS}
            for facet, each in {**values, "kind": task.kinds}.items():
                for value in each:
                    found[facet, value].add(pk)
        return {key: frozenset(tasks) for key, tasks in found.items()}

    @cached_property
    def _by_slug(self) -> dict[str, int]:
        return {task.slug: pk for pk, task in self.tasks.items()}

    @cached_property
    def values(self) -> list[Any]:
        """Return all columns, to compare two catalogs; models compare by their ids alone."""
        rows = [*self.agents.values(), *self.devices.values()]
        columns = [{n: v for n, v in vars(row).items() if n[0] != "_"} for row in rows]
        return [columns, self.tasks, self.experiments]


@dataclass(frozen=True)
class Facet:
    """One filter: its values, and the number of that of each row; -1 for none.

    A task has several families: `of_task` says for each value which tasks have it.
    """

    values: list[str]
    numbers: NDArray[Any]
    of_task: NDArray[Any] | None = None

    def mask(self, value: str) -> Mask:
        """Return the rows that have this value."""
        if value not in self.values:
            return np.zeros(len(self.numbers), bool)
        number = self.values.index(value)
        if self.of_task is None:
            return np.asarray(self.numbers == number)
        return np.asarray(self.of_task[number][self.numbers])

    def among(self, chosen: NDArray[Any]) -> Facet:
        """Return the facet of the rows at some positions."""
        return replace(self, numbers=self.numbers[chosen])

    def counts(self, rows: NDArray[Any]) -> dict[str, int]:
        """Return how many of some rows have each value."""
        numbers = self.numbers[rows]
        if self.of_task is None:
            counted = np.bincount(numbers[numbers >= 0], minlength=len(self.values))
        else:
            tasks = np.bincount(numbers, minlength=self.of_task.shape[1])
            counted = self.of_task.astype(int) @ tasks
        return dict(zip(self.values, counted.tolist(), strict=True))


@dataclass(frozen=True)
class Table:
    """The runs that count, those of one place together and the oldest first.

    `newest` marks those of `newest_among` all rows.
    """

    rows: Columns
    place: NDArray[Any]
    newest: Mask
    facets: Mapping[str, Facet]

    def among(self, chosen: NDArray[Any]) -> Table:
        """Return the rows at some positions, in order; `newest` marks those that it marks here."""
        facets = {name: facet.among(chosen) for name, facet in self.facets.items()}
        return Table(self.rows.among(chosen), self.place[chosen], self.newest[chosen], facets)

    def newest_among(self, mask: Mask) -> NDArray[Any]:
        """Return the newest row of each place among those of a mask.

        A run of a user counts only where the arena itself has none, of any repeat: else users could
        add repeats to the results of its agents.
        """
        return _newest_of(self.rows, self.place, np.flatnonzero(mask))

    def mask(self, values: Mapping[str, str]) -> Mask:
        """Return the rows that have these values of filters; an empty value leaves all."""
        found = np.ones(len(self.rows), bool)
        for name, value in values.items():
            if value:
                found &= self.facets[name].mask(value)
        return found


def table_of(rows: Columns, catalog: Catalog) -> Table:
    """Return the table of these runs.

    A run of the arena itself counts as newer than those of users. Of two that were created at once,
    the later one is newer.
    """
    places = place_numbers(rows)[0]
    order = np.lexsort((rows["created"], rows["by_arena"], places))
    rows, places = rows.among(order), places[order]
    newest = np.zeros(len(places), bool)
    newest[_newest_of(rows, places, np.arange(len(places)))] = True
    tasks, of_task = np.unique(rows["task"], return_inverse=True)
    facts = [catalog.tasks[pk] for pk in tasks.tolist()]
    families = sorted({name for each in facts for name in each.families})
    having = np.array([[name in each.families for each in facts] for name in families], bool)
    agents, of_agent = np.unique(rows["agent"], return_inverse=True)
    named = [catalog.agents[pk] for pk in agents.tolist()]
    facets = {
        "suite": _facet([each.suite for each in facts], of_task),
        "category": _facet([each.category for each in facts], of_task),
        "track": _facet([each.track for each in facts], of_task),
        "level": _facet([str(each.level) for each in facts], of_task),
        "family": Facet(families, of_task, having.reshape(len(families), len(facts))),
        "hardware": _of_ids(rows["hardware"], lambda pk: catalog.devices[pk].slug),
        "agent": _facet([each.slug for each in named], of_agent),
        "model": _of_texts(
            np.where(rows["answered"] == "", _models(named)[of_agent], rows["answered"])
        ),
        "harness": _facet([each.adapter for each in named], of_agent),
        "origin": _facet([origin_of(each) for each in named], of_agent),
        "experiment": _of_ids(
            rows["experiment"], lambda pk: catalog.experiments[pk].slug if pk else ""
        ),
        "judge": (judge := _of_texts(rows["judge"])),
        "judge_in_use": _in_use(judge, rows["created"]),
    }
    return Table(rows, places, newest, facets)


def _in_use(judge: Facet, created: NDArray[Any]) -> Facet:
    """Return the version that judged each run, or for none the newest one in use by then.

    A version is in use from the first run on that it judged.
    """
    judged = judge.numbers >= 0
    since = np.full(len(judge.values), np.inf)
    np.minimum.at(since, judge.numbers[judged], created[judged])
    order = np.argsort(since)
    if not len(order):
        return judge
    latest = order[np.maximum(np.searchsorted(since[order], created, "right") - 1, 0)]
    return replace(judge, numbers=np.where(judged, judge.numbers, latest))


def _newest_of(rows: Columns, places: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
    """Return the newest row of each place among the chosen (see `Table.newest_among`)."""
    last: NDArray[Any] = chosen[last_of_each(places[chosen])]
    return last[_without_users(rows.among(last))]


def _without_users(rows: Columns) -> Mask:
    """Return which rows, in the order of places, are not of a user beside one of the arena.

    Beside are the repeats of one task, agent and device.
    """
    by_arena = rows["by_arena"]
    ends = last_of_each(rows["task"], rows["agent"], rows["hardware"])
    cells = np.cumsum(ends) - ends
    has_own = np.bincount(cells[by_arena], minlength=len(rows)) > 0
    return np.asarray(by_arena | ~has_own[cells])


def _models(agents: Sequence[Agent]) -> NDArray[Any]:
    return np.array([each.model for each in agents], object)


def origin_of(agent: Agent) -> str:
    """Return who runs an agent: this arena, or a user elsewhere."""
    return filters.EXTERNAL if agent.adapter == EXTERNAL else filters.ARENA


def _of_ids(column: NDArray[Any], name: Callable[[int], str]) -> Facet:
    ids, inverse = np.unique(column, return_inverse=True)
    return _facet([name(pk) for pk in ids.tolist()], inverse)


def _of_texts(column: NDArray[Any]) -> Facet:
    numbers: dict[str, int] = {}
    inverse = [numbers.setdefault(text, len(numbers)) for text in column.tolist()]
    return _facet(list(numbers), np.array(inverse, "i4"))


def _facet(names: Sequence[str], inverse: NDArray[Any]) -> Facet:
    """Return the facet of rows whose names are `names[inverse]`; an empty name is no value."""
    values = sorted(set(names) - {""})
    numbers = {value: number for number, value in enumerate(values)}
    found = np.array([numbers.get(name, -1) for name in names], "i4")
    return Facet(values, found[inverse] if len(names) else np.zeros(0, "i4"))
