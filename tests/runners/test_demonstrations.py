"""Demonstrations of an arena without runs: one after the other, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from arena.catalog.models import Hardware
from arena.runs.models import Experiment, Run
from runners.first_runs import DEMONSTRATIONS, FirstRuns, demonstrations, is_busy
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
    assert demonstrations() == [*DEMONSTRATIONS]
    assert not is_busy()


def test_published_runs_do_not_count(run_of: MakeRun) -> None:
    run_of("passed", imported_at=timezone.now())
    assert demonstrations() == [*DEMONSTRATIONS]


@pytest.mark.parametrize("status", ["queued", "running", "judging"])
def test_the_next_waits_while_one_is_under_way(status: str, run_of: MakeRun) -> None:
    run_of(status, FIRST)
    assert demonstrations() == OTHERS, "it goes on after a restart"
    assert is_busy()


def test_the_next_begins_once_the_first_has_ended(run_of: MakeRun) -> None:
    run_of("passed", FIRST)
    assert demonstrations() == OTHERS
    assert not is_busy()


@pytest.mark.parametrize("status", ["queued", "passed", "failed"])
def test_an_arena_with_other_runs_demonstrates_nothing(status: str, run_of: MakeRun) -> None:
    run_of("passed", FIRST)
    run_of(status)
    assert demonstrations() == []


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        (["", "", "AMD", "AMD"], ["measured on AMD", "start tour", "published", "start demo"]),
        (["", "", "", ""], ["published"]),
    ],
    ids=["once the hardware is measured", "without hardware after a while"],
)
def test_published_results_are_loaded_after_the_first_run_has_begun(
    hardware: list[str], expected: list[str]
) -> None:
    done: list[str] = []
    names, clock = iter(hardware), iter(range(10))
    first = FirstRuns(
        len(hardware),
        start=lambda plan: done.append(f"start {plan}"),
        load=lambda: done.append("published"),
        report=lambda name: done.append(f"measured on {name}"),
        hardware=lambda: next(names),
        missing=lambda: ["tour", "demo"],
        busy=lambda: done[-1].startswith("start"),
        now=lambda: float(next(clock)),
    )
    for _ in hardware[1:]:
        first.step()
    assert "published" not in done or done[0] == "measured on AMD"
    first.step()
    assert done == expected


def test_no_demonstration_starts_once_a_visitor_has_a_run(run_of: MakeRun) -> None:
    started: list[str] = []
    first = FirstRuns(
        0.0,
        start=started.append,
        load=lambda: None,
        report=lambda name: None,
        hardware=lambda: "AMD",
    )
    first.step()
    run_of("passed", plan=FIRST)
    run_of("passed")
    for _ in OTHERS:
        first.step()
    assert started == [FIRST]
