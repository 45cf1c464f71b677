"""Order in which agent workers claim queued runs."""

from __future__ import annotations

import pytest
from django.db import connection

from arena.catalog.models import Hardware, Worker
from arena.runs import services
from arena.runs.models import Experiment, Run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def worker(hardware):
    """Worker that builds and measures."""
    return Worker.objects.create(name="all", queues=["build", hardware.queue], pid=1)


def test_claim_next_single_run_precedes_experiment_runs(start):
    experiment = Experiment.objects.create(slug="set", title="Set")
    of_set = [start(experiment=experiment) for _ in "ab"]
    alone = [start() for _ in "ab"]
    order = [alone[0], alone[1], of_set[0], of_set[1]]
    assert list(Run.objects.in_turn()) == order
    assert [Run.objects.ahead_of(run).count() for run in order] == [0, 1, 2, 3]
    services.cancel_run(alone[0], None)
    assert services.claim_next("one") == alone[1]
    assert [services.claim_next(lease) for lease in ("two", "three", "four")] == [*of_set, None]


def test_claim_next_lost_race_claims_following_run(start):
    first, second = start(), start()
    rivals = ["another"]

    def claim_before(execute, sql, *parameters):
        if sql.startswith("UPDATE") and rivals:
            assert services.claim_run(first.pk, rivals.pop())
        return execute(sql, *parameters)

    with connection.execute_wrapper(claim_before):
        assert services.claim_next("mine") == second
    first.refresh_from_db()
    assert first.lease == "another"


def test_claim_next_unserved_run_waits_for_its_worker(start, worker, hardware):
    away = Hardware.objects.create(slug="away", name="Away", kind="cpu", queue="hw.away")
    unserved = start(hardware_slug="away")
    of_set = start(
        hardware_slug=hardware.slug, experiment=Experiment.objects.create(slug="set", title="Set")
    )
    assert services.claim_next("one") == of_set
    assert services.claim_next("two") is None
    worker.queues = [away.queue]
    worker.save()
    assert services.claim_next("two") is None, "nobody builds"
    worker.queues = ["build", away.queue]
    worker.save()
    assert services.claim_next("two") == unserved
