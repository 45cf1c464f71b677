"""Tests of broken runs that are continued, by themselves or by request."""

from __future__ import annotations

import pytest
from django.urls import reverse

from arena.accounts.models import ApiToken
from arena.errors import Conflict, Forbidden, QuotaExceeded
from arena.runs import experiments, services
from arena.runs.experiments import Entrant, Plan
from arena.runs.models import Run
from arena.runs.services.continuation import MAX_AUTOMATIC
from arena.runs.spending import count_kept_calls
from arena.runs.states import Fault, RunStatus
from arena.runs.trace.events import EventDraft
from tests.arena.factories import LEASE, finished, hide

pytestmark = pytest.mark.django_db
SILENT = "Its worker stopped answering."


def model_call(run: Run, cost_usd: float | None, replayed: bool = False, error: str = "") -> None:
    usage = {
        "input_tokens": 10, "output_tokens": 5, "cached_tokens": 0, "cache_write_tokens": 0,
        "reasoning_tokens": 0,
    }  # fmt: skip
    body = {
        "provider": "anthropic", "wire": "messages", "model": "m", "status": 200, "usage": usage,
        "cost_usd": cost_usd, "latency_ms": 1.0, "first_byte_ms": 1.0, "stop_reason": "end_turn",
        "retries": 0, "replayed": replayed, "error": error,
    }  # fmt: skip
    services.record(run.pk, [EventDraft("model_call", body)], producer="test")


def interrupted(run: Run) -> Run:
    """Let the worker of a run die, and return the run as it is then."""
    services.claim_run(run.pk, LEASE)
    assert services.interrupt_run(run.pk, {"lease": LEASE}, SILENT)
    run.refresh_from_db()
    return run


def broken(run: Run, cost_usd: float = 0.5) -> Run:
    """Let a run break that has cost something."""
    services.claim_run(run.pk, LEASE)
    model_call(run, cost_usd)
    services.interrupt_run(run.pk, {"lease": LEASE}, SILENT)
    run.refresh_from_db()
    return run


def test_interrupted_run_without_cost_is_started_anew_and_stays(start):
    run = interrupted(start(label="mine", budget={"rounds": 3}, repeat=2))
    assert (run.status, run.fault, run.reason) == (RunStatus.BROKEN, Fault.ARENA, SILENT)
    new = run.continued_by
    assert new.status == RunStatus.QUEUED
    for field in ("task_version", "agent", "hardware", "budget", "label", "repeat", "owner"):
        assert getattr(new, field) == getattr(run, field)
    assert f"Continued as run {new.pk}." in str(run.events.filter(kind="note").get().body)


def test_interrupted_run_for_staff_alone_is_started_anew_for_staff_alone(start, alice):
    run = start(owner=alice)
    hide(run)
    assert interrupted(run).continued_by.visibility == "staff"


def test_interrupted_run_that_used_a_free_model_is_started_anew(start):
    assert broken(start(), cost_usd=0.0).continued_by.status == RunStatus.QUEUED


def test_continued_run_of_a_user_stays_one_where_the_user_joins_the_staff(start, alice):
    run = broken(start(owner=alice))
    alice.is_staff = True
    alice.save()
    assert not services.continue_run(run, alice).by_arena


@pytest.mark.parametrize("cost_usd", [0.01, None])
def test_interrupted_run_that_cost_something_waits_for_a_request(start, cost_usd):
    run = broken(start(), cost_usd)
    assert not Run.objects.filter(continues=run).exists()
    assert services.can_continue(run)


def test_run_interrupted_again_and_again_is_not_started_forever(start):
    run = start()
    for _ in range(MAX_AUTOMATIC):
        run = interrupted(run).continued_by
    interrupted(run)
    assert not Run.objects.filter(continues=run).exists()
    assert services.continue_run(run, None).continues == run


def test_kept_calls_are_those_of_all_runs_that_were_paid_and_answered(start):
    first, second = broken(start()), start()
    model_call(second, 0.0, replayed=True)
    model_call(second, 0.5)
    model_call(second, None, error="the answer was cut")
    assert count_kept_calls([first.pk, second.pk]) == 2
    assert count_kept_calls([second.pk]) == 1 and count_kept_calls([]) == 0


def test_interrupted_run_ignores_the_limit_of_its_owner(start, alice, settings):
    run = start(owner=alice)
    settings.MAX_ACTIVE_RUNS = 1
    start(owner=None)
    run.refresh_from_db()
    assert interrupted(run).continued_by.owner == alice


def test_interrupted_run_of_a_retired_agent_ends_without_another(start, agent):
    run = start()
    type(agent).objects.update(active=False)
    assert interrupted(run).status == RunStatus.BROKEN
    assert not Run.objects.filter(continues=run).exists()


def test_interrupt_of_a_lost_lease_does_nothing(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    assert not services.interrupt_run(run.pk, {"lease": "another"}, SILENT)
    run.refresh_from_db()
    assert run.status == RunStatus.RUNNING


def test_continue_makes_one_run_however_often_it_is_asked(start, alice):
    run = broken(start(owner=alice))
    services.continue_run(run, alice)
    with pytest.raises(Conflict, match="another run has taken its place"):
        services.continue_run(run, alice)
    assert Run.objects.count() == 2


@pytest.mark.parametrize("state", ["queued", "passed", "imported"])
def test_continue_of_a_run_that_did_not_break_is_refused(start, alice, state):
    run = start(owner=alice)
    if state == "passed":
        finished(run)
    elif state == "imported":
        run = broken(run)
        Run.objects.update(imported_at=run.created_at)
    run.refresh_from_db()
    with pytest.raises(Conflict, match="cannot be continued"):
        services.continue_run(run, alice)


def test_continue_by_another_user_is_forbidden(start, alice, charlie):
    run = broken(start(owner=alice))
    with pytest.raises(Forbidden):
        services.continue_run(run, charlie)


def test_continue_counts_against_the_limit_of_its_owner(start, alice, settings):
    run = broken(start(owner=alice))
    settings.MAX_ACTIVE_RUNS = 0
    with pytest.raises(QuotaExceeded):
        services.continue_run(run, alice)


def test_continue_page_opens_the_new_run(client, start, alice):
    run = broken(start(owner=alice))
    client.force_login(alice)
    page = client.post(reverse("run-continue", args=[run.pk]))
    assert page.url == f"/runs/{Run.objects.get(continues=run).pk}/"
    again = client.post(reverse("run-continue", args=[run.pk]), follow=True)
    assert "another run has taken its place" in again.content.decode()
    client.logout()
    assert client.post(reverse("run-continue", args=[run.pk])).url == "/login/"


def test_continue_by_api_names_both_runs(client, start, alice):
    run = broken(start(owner=alice))
    _, secret = ApiToken.issue(alice, "t", ["run"])
    path = f"/api/v1/runs/{run.pk}"
    answer = client.post(f"{path}/continue", HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert answer.status_code == 201 and answer.json()["continues"] == run.pk
    assert client.get(path).json()["continued_by"] == answer.json()["id"]


@pytest.fixture
def plan(task, agent, hardware) -> Plan:
    return Plan(slug="two", title="Two", agents=[Entrant(agent=agent.slug)], tasks=[task.slug],
                repeats=2)  # fmt: skip


def test_experiment_continues_its_broken_runs(plan):
    first, second = experiments.start(plan).runs
    broken(first)
    assert list(experiments.interrupted(first.experiment)) == [first]
    started = experiments.start(plan)
    assert [run.continues for run in started.runs] == [first] and started.there == [second]
    assert list(experiments.interrupted(first.experiment)) == []


def test_experiment_leaves_a_broken_run_whose_cell_was_filled_since(plan):
    first, _ = experiments.start(plan).runs
    broken(first)
    services.cancel_run(services.continue_run(first, None), None)
    Run.objects.filter(continues=first).update(continues=None)
    assert not services.can_continue(first)
    assert [run.continues for run in experiments.start(plan).runs] == [None]
