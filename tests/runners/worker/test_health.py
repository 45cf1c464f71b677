"""Health of a machine: a worker with a wrong clock or a full disk takes no work, and says why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from arena.catalog import services as catalog
from arena.catalog.models import CatalogSync, Worker
from runners.worker import health, worker
from runners.worker.health import MAX_BROKEN, MIN_FREE_BYTES, Health

NOW = datetime(2026, 11, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "problem"),
    [
        (35, "Its clock is 35 s ahead of the database's: synchronise it, by NTP."),
        (-40, "Its clock is 40 s behind the database's: synchronise it, by NTP."),
        (1, ""),
    ],
)
def test_clock_problem_with_an_offset_names_it(seconds: int, problem: str) -> None:
    machine = NOW + timedelta(seconds=seconds)
    assert health.clock_problem(lambda: NOW, lambda: machine) == problem


def test_clock_problem_with_a_slow_database_says_nothing() -> None:
    times = iter([NOW + timedelta(seconds=30), NOW + timedelta(seconds=40)])
    assert health.clock_problem(lambda: NOW, lambda: next(times)) == ""


@pytest.mark.parametrize(("free", "full"), [(MIN_FREE_BYTES - 1, True), (MIN_FREE_BYTES, False)])
def test_disk_problem_with_little_space_names_folder_and_space(
    free: int, full: bool, tmp_path: Path
) -> None:
    found = health.disk_problem(tmp_path, lambda folder: free)
    assert bool(found) == full
    if full:
        assert f"255 MiB are free in {tmp_path}" in found


def test_health_with_evaluations_that_break_in_a_row_says_how() -> None:
    found = Health()
    for number in range(MAX_BROKEN):
        assert found.breaks == ""
        found.broke(1, "the same one again counts once")
        found.broke(number, f"no space left {number}")
    assert found.breaks.endswith("the last one so: no space left 2")
    found.judged()
    assert found.breaks == ""


@pytest.mark.django_db(transaction=True)
def test_poll_with_a_problem_shows_it_and_offers_no_queue() -> None:
    duty = worker.Duty(("build",))
    assert worker.poll(duty, reap=lambda: 0, problem="Its disk is full.") == "Its disk is full."
    shown = Worker.objects.get()
    assert shown.live and shown.problem == "Its disk is full."
    assert Worker.objects.queues() == set()
    assert worker.poll(duty, reap=lambda: 0) == ""
    assert Worker.objects.queues() == {"build"}


@pytest.mark.django_db(transaction=True)
def test_poll_after_breaks_takes_no_work_where_another_machine_does() -> None:
    duty = worker.Duty(("build",))
    for number in range(MAX_BROKEN):
        health.here.broke(number, "no space left")
    try:
        assert worker.poll(duty, reap=lambda: 0) == "", "there is no other machine"
        catalog.heartbeat_worker("other/build", queues=["build"], pid=1)
        assert "no space left" in worker.poll(duty, reap=lambda: 0)
    finally:
        health.here.judged()


@pytest.mark.django_db(transaction=True)
def test_poll_with_another_judge_than_the_catalogues_takes_no_work() -> None:
    duty = worker.Duty(("build",))
    CatalogSync.objects.create(checkout="a", machine="a", judge_version="999")
    assert "of version 999: update the older checkout" in worker.poll(duty, reap=lambda: 0)
    assert Worker.objects.queues() == set()
