"""Races for a row: of two claims at once, one wins, whatever the clocks of their machines say."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier

import pytest
import redis
from django.db import connection, connections
from django.db.models.functions import Now
from django.utils import timezone

from arena.catalog import devices
from arena.catalog import services as catalog
from arena.catalog.models import Worker
from arena.leases import database_time
from arena.runs import services
from arena.runs.models import Evaluation, Run
from tests.arena.factories import LEASE, ask_for_verdict

BUILT, MEASURING = "built", "measuring"
TRIES = 200
TOGETHER = 2


needs_postgres = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite lets one writer in at a time"
)


@pytest.fixture
def evaluation(transactional_db, start):
    run = start()
    services.claim_run(run.pk, LEASE)
    return ask_for_verdict(run)


def together(*actions):
    """Return what the actions answer, each in a thread with a connection of its own, at once."""
    barrier = Barrier(len(actions))

    def act(action):
        try:
            connection.ensure_connection()
            barrier.wait()
            return action()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


@needs_postgres
def test_hold_of_a_device_by_two_at_once_is_won_by_one(transactional_db, hardware):
    for number in range(TRIES):
        hold = partial(devices.hold, f"GPU-{number}", hardware)
        rows = together(*(partial(hold, f"{name}/hw", 1, f"token of {name}") for name in "ab"))
        assert len({row.token for row in rows}) == 1, "both hold it"


def claim(evaluation: Evaluation, lease: str):
    return lambda: services.claim_evaluation(evaluation.pk, BUILT, MEASURING, lease)


@needs_postgres
def test_claim_evaluation_by_two_at_once_is_won_by_one(evaluation):
    row = Evaluation.objects.filter(pk=evaluation.pk)
    winners = []
    for number in range(TRIES):
        row.update(status=BUILT, lease="")
        found = together(*(claim(evaluation, f"{number}/{each}") for each in range(TOGETHER)))
        winners.append(sum(each is not None for each in found))
    assert winners == [1] * TRIES


@needs_postgres
def test_claim_evaluation_while_its_run_ends_does_not_revive_it(evaluation):
    run = evaluation.submission.run
    row = Evaluation.objects.filter(pk=evaluation.pk)
    lost = []
    for _ in range(TRIES):
        Run.objects.filter(pk=run.pk).update(status="running", lease=LEASE, ended_at=None)
        row.update(status=BUILT, lease="")
        together(
            claim(evaluation, "late"),
            lambda: services.finish_run(run.pk, LEASE, "failed", "Its agent gave up."),
        )
        if row.get().status != "broken":
            lost.append(row.get().status)
    assert lost == []


@needs_postgres
def test_claim_run_by_two_at_once_is_won_by_one(evaluation, start):
    run = start()
    row = Run.objects.filter(pk=run.pk)
    for number in range(TRIES):
        row.update(status="queued", lease="")
        found = together(
            *(lambda lease=f"{number}/{i}": services.claim_run(run.pk, lease) for i in range(2))
        )
        assert sum(each is not None for each in found) == 1


@pytest.fixture(params=[-300, -35, 35, 300])
def machine_clock(request, monkeypatch):
    """Set the clock of this machine off, as Django reads it; the database has the right one."""
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + timedelta(seconds=request.param))


@pytest.mark.django_db
def test_reap_with_the_clock_of_its_machine_off_ends_nothing(start, machine_clock):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    assert services.claim_evaluation(evaluation.pk, "queued", "building", "builder")
    assert services.reap() == 0
    assert services.heartbeat_run(run.pk, LEASE)
    assert services.heartbeat_evaluation(evaluation.pk, "builder")


@pytest.mark.django_db
def test_worker_on_a_machine_with_its_clock_off_is_live(machine_clock):
    catalog.heartbeat_worker("d2/build", queues=["build"], pid=1)
    assert Worker.objects.get().live
    assert Worker.objects.queues() == {"build"}


@pytest.mark.django_db
def test_worker_without_a_heartbeat_is_not_live():
    catalog.heartbeat_worker("d2/build", queues=["build"], pid=1)
    Worker.objects.update(last_seen_at=database_time() - timedelta(seconds=31))
    assert not Worker.objects.get().live
    assert Worker.objects.queues() == set()


@pytest.mark.django_db
def test_evaluation_interrupted_twice_keeps_the_attempts_of_the_judge(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    for interrupted in (True, True, False):
        assert services.claim_evaluation(evaluation.pk, "queued", "building", "d:1")
        assert services.break_evaluation(evaluation.pk, "d:1", "stopped", interrupted)
        evaluation.refresh_from_db()
        assert evaluation.status == "queued"
    assert services.claim_evaluation(evaluation.pk, "queued", "building", "d:1")
    assert services.break_evaluation(evaluation.pk, "d:1", "no memory")
    evaluation.refresh_from_db()
    assert (evaluation.status, evaluation.attempts) == ("broken", 4)


@pytest.mark.django_db
def test_claim_on_the_machine_where_it_broke_leaves_it_to_another(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    catalog.heartbeat_worker("bad/build", queues=["build"], pid=1)

    def claimed(machine: str):
        return services.claim_evaluation(evaluation.pk, "queued", "building", f"{machine}:2:x")

    assert claimed("bad")
    services.break_evaluation(evaluation.pk, "bad:2:x", "No space left on device")
    catalog.heartbeat_worker("good/build", queues=["build"], pid=2, problem="Its disk is full.")
    assert claimed("bad"), "no other machine takes builds"
    services.break_evaluation(evaluation.pk, "bad:2:x", "stopped", interrupted=True)
    catalog.heartbeat_worker("good/build", queues=["build"], pid=2)
    assert claimed("bad") is None
    assert claimed("good")


@pytest.mark.django_db
def test_reap_sends_a_message_again_of_a_row_whose_time_the_database_wrote(start, hardware, valkey):
    start()
    redis.Redis.from_url(valkey).flushdb()  # other tests leave messages, as many as rows wait
    Worker.objects.create(name="all", queues=["agents", "build", hardware.queue], pid=1)
    Run.objects.update(heartbeat_at=Now() - timedelta(minutes=1))
    assert services.reap() == 1
    assert services.reap() == 0
