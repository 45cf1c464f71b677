"""Probes and figures for the tools of an operator."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from arena.accounts.models import ApiToken, Scope, User
from arena.catalog.models import Worker
from arena.runs import services
from tests.arena.factories import LEASE, ask_for_verdict

pytestmark = pytest.mark.django_db


def figures(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Return each figure of a scrape, by name and by the values of its labels."""
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(text)
    }


def test_healthz_without_database_or_queue_answers(client):
    assert client.get("/healthz").content == b"ok\n"


def test_readyz_with_all_there_is_ready(client, valkey):
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True})


def test_readyz_without_a_queue_says_so(client, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "queue": "unreachable"})


@pytest.mark.parametrize("authorization", ["", "Bearer nonsense", "Basic YTpi"])
def test_metrics_for_a_visitor_are_refused(client, authorization):
    answer = client.get("/metrics", headers={"authorization": authorization})
    assert answer.status_code == 401 and b"arena_" not in answer.content


def test_metrics_by_a_token_of_a_user_without_staff_are_refused(client):
    _, token = ApiToken.issue(User.objects.create_user("ada"), "scrape", [Scope.READ])
    answer = client.get("/metrics", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 401


def test_metrics_name_queues_workers_and_waiting_work(client, start, hardware, valkey):
    staff = User.objects.create_user("grace", is_staff=True)
    _, token = ApiToken.issue(staff, "scrape", [Scope.READ])
    run = start()
    services.claim_run(run.pk, LEASE)
    ask_for_verdict(run)
    Worker.objects.create(name="a/build", queues=["build"], pid=1)
    Worker.objects.create(name="b/build", queues=["build"], pid=2, problem="Its disk is full.")
    answer = client.get("/metrics", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    found = figures(answer.content.decode())
    assert found["arena_workers"] == {("build", "fit"): 1, ("build", "unfit"): 1}
    assert found["arena_evaluations"] == {(hardware.slug, "queued"): 1}
    assert found["arena_runs"] == {("judging",): 1}
    assert found["arena_oldest_evaluation_seconds"][hardware.slug, "queued"] >= 0
    assert set(found["arena_queue_messages"]) == {("agents",), ("build",), (hardware.queue,)}
    assert abs(found["arena_clock_offset_seconds"][()]) < 2
