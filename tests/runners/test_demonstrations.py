"""Demonstrations of an arena without runs: one after the other, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from arena.catalog.models import Hardware
from arena.runs.models import Experiment, Run
from runners import launcher
from runners.launcher import DEMONSTRATIONS
from tests.arena.factories import judged_run

pytestmark = pytest.mark.django_db
MakeRun = Callable[..., Run]
FIRST, *OTHERS = DEMONSTRATIONS


@pytest.fixture
def run_of(hardware: Hardware) -> MakeRun:
    """A function that makes a run in this state, of an experiment or of none."""

    def make(status: str, plan: str = "", **more: Any) -> Run:
        if plan:
            more["experiment"], _ = Experiment.objects.get_or_create(slug=plan)
        run = judged_run("tuner", hardware=hardware, **more)
        Run.objects.filter(pk=run.pk).update(status=status)
        return run

    return make


def test_an_empty_arena_has_all_demonstrations_to_start() -> None:
    assert launcher._demonstrations() == [*DEMONSTRATIONS]
    assert not launcher._is_busy()


def test_published_runs_do_not_count(run_of: MakeRun) -> None:
    run_of("passed", imported_at=timezone.now())
    assert launcher._demonstrations() == [*DEMONSTRATIONS]


@pytest.mark.parametrize("status", ["queued", "running", "judging"])
def test_the_next_waits_while_one_is_under_way(status: str, run_of: MakeRun) -> None:
    run_of(status, FIRST)
    assert launcher._demonstrations() == OTHERS, "it goes on after a restart"
    assert launcher._is_busy()


def test_the_next_begins_once_the_first_has_ended(run_of: MakeRun) -> None:
    run_of("passed", FIRST)
    assert launcher._demonstrations() == OTHERS
    assert not launcher._is_busy()


@pytest.mark.parametrize("status", ["queued", "passed", "failed"])
def test_an_arena_with_other_runs_demonstrates_nothing(status: str, run_of: MakeRun) -> None:
    run_of("passed", FIRST)
    run_of(status)
    assert launcher._demonstrations() == []
