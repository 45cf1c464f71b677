"""The declared set of tasks of a board: what ranks are over, whichever agents there are.

It is the core set of this folder's `core.toml`, every published task that filters select and the
device can judge, or the tasks of an experiment's plan.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from arena.catalog.models import NATIVE
from arena.leaderboard.ranking.filters import ALL, CORE, TASK_FACETS, Filters
from arena.leaderboard.ranking.table import TaskFacts
from arena.runs import experiments
from arena.runs.models import Experiment, Run

FILE = Path(__file__).with_name("core.toml")


@dataclass(frozen=True)
class TaskSet:
    """The ids of the tasks of a board; `name` is `core` or `all`."""

    name: str
    tasks: frozenset[int]


@cache
def core_tasks() -> Mapping[str, frozenset[str]]:
    """Return the slugs of the core tasks of each kind of device."""
    kinds = tomllib.loads(FILE.read_text("utf-8"))
    return {
        kind: frozenset(
            f"{operator}/{track}" for track, names in tracks.items() for operator in names
        )
        for kind, tracks in kinds.items()
    }


def task_set(
    filters: Filters,
    tasks: Mapping[int, TaskFacts],
    kind: str,
    planned: frozenset[str] | None,
) -> TaskSet:
    """Return the set of a board on a device of this kind.

    With `planned`, the slugs of an experiment's tasks, retired ones among them count too.
    """
    able = {pk: each for pk, each in tasks.items() if kind in each.kinds}
    if planned is not None:
        chosen = {pk: each for pk, each in able.items() if each.slug in planned}
        return TaskSet(ALL, _selected(chosen, filters))
    able = {pk: each for pk, each in able.items() if each.runnable}
    if _name(filters, able, kind) == CORE:
        slugs = core_tasks()[kind]
        able = {pk: each for pk, each in able.items() if each.slug in slugs}
        return TaskSet(CORE, _selected(able, filters))
    return TaskSet(ALL, _selected(able, filters))


def planned_tasks(experiment: str) -> frozenset[str]:
    """Return the slugs of the tasks of an experiment: of its plan, else of its public runs."""
    found = Experiment.objects.filter(slug=experiment).first()
    if found is None:
        return frozenset()
    if plan := experiments.plan_of(found):
        return frozenset(task for tasks in plan.tasks_of.values() for task in tasks)
    task = "task_version__task__operator__slug", "task_version__task__track"
    names = Run.objects.public().filter(experiment=found).order_by().values_list(*task).distinct()
    return frozenset(f"{operator}/{track}" for operator, track in names)


def _name(filters: Filters, able: Mapping[int, TaskFacts], kind: str) -> str:
    """Return the name of the set: `core` only where the catalogue has most of its tasks."""
    narrowed = any(getattr(filters, name) for name in TASK_FACETS if name != "suite")
    if filters.suite != NATIVE or (filters.task_set or (ALL if narrowed else CORE)) == ALL:
        return ALL
    declared = core_tasks().get(kind, frozenset())
    here = sum(each.slug in declared for each in able.values())
    return CORE if declared and 2 * here >= len(declared) else ALL


def _selected(tasks: Mapping[int, TaskFacts], filters: Filters) -> frozenset[int]:
    """Return the ids of the tasks that the filters select."""
    wanted = {name: getattr(filters, name) for name in TASK_FACETS if getattr(filters, name)}
    return frozenset(
        pk
        for pk, each in tasks.items()
        if all(value in each.values_of(name) for name, value in wanted.items())
    )
