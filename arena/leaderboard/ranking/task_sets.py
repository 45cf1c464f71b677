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
from arena.leaderboard.ranking.table import Catalog
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
    filters: Filters, catalog: Catalog, kind: str, planned: frozenset[str] | None
) -> TaskSet:
    """Return the set of a board on a device of this kind.

    With `planned`, the slugs of an experiment's tasks, retired ones among them count too.
    """
    wanted = {name: getattr(filters, name) for name in TASK_FACETS if getattr(filters, name)}
    chosen = catalog.tasks_with("kind", kind)
    for name, value in wanted.items():
        chosen &= catalog.tasks_with(name, value)
    if planned is not None:
        return TaskSet(ALL, chosen & catalog.named(planned))
    chosen &= catalog.runnable
    if filters.suite == NATIVE and filters.task_set != ALL:
        slugs = core_tasks().get(kind, frozenset())
        core = catalog.named(slugs)
        here = core & catalog.runnable & catalog.tasks_with("kind", kind)
        narrowed = any(name != "suite" for name in wanted)
        if slugs and 2 * len(here) >= len(slugs) and (filters.task_set == CORE or not narrowed):
            return TaskSet(CORE, chosen & core)
    return TaskSet(ALL, chosen)


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
