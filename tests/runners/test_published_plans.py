"""The plans of published results: each agent has something to submit on each of its tasks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from arena.runs.experiments import Plan, read_plan
from evaluation.kinds.kernel.load import load_tasks
from evaluation.tasks.spec import find_operators, folder_of
from runners.agents import workspace_files
from tests.runners.house import ROOT

TASKS = ROOT / "tasks"
PLANS = sorted((ROOT / "benchmarks" / "published").glob("*.toml"))


@cache
def known() -> frozenset[str]:
    """Return the slugs of all tasks of this project."""
    folders = (folder_of(TASKS, name) for name in find_operators(TASKS))
    return frozenset(task.slug for folder in folders for task in load_tasks(folder))


def named(plan: Plan) -> list[str]:
    """Return the tasks that a plan names without a glob."""
    tasks = [*plan.tasks, *(task for entrant in plan.agents for task in entrant.tasks)]
    return [task for task in tasks if "*" not in task]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plan_names_tasks_that_are_there(path: Path) -> None:
    assert not set(named(read_plan(str(path)))) - known()


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plan_gives_the_expert_tasks_with_a_solution(path: Path) -> None:
    for expert in (each for each in read_plan(str(path)).agents if each.agent == "expert"):
        for task in expert.tasks:
            operator, _, track = task.partition("/")
            assert operator == "*" or workspace_files("expert", TASKS, operator, track), task
