"""Limits of a user in a day, and their refunds."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from arena.errors import QuotaExceeded
from arena.runs import experiments, services
from arena.runs.experiments import Entrant, Plan
from arena.runs.models import Evaluation, Run
from arena.runs.quotas import FINALS, KERNELS, RUNS, quota_of, quotas_of
from tests.arena.factories import finished, judge, report
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db
TASK = "relu/cpp-to-cpp"


@pytest.fixture(autouse=True)
def limits(settings, task, hardware) -> None:
    """Small limits, and what judges kernels."""
    settings.MAX_DAILY_RUNS = settings.MAX_DAILY_SUBMISSIONS = 2
    settings.MAX_DAILY_FINALS = 1


def submit(owner, scope="round"):
    return services.submit_kernel(task_slug=TASK, source="int relu;", owner=owner, scope=scope)


def test_runs_above_the_daily_limit_are_refused(alice, charlie, start):
    start(owner=alice), start(owner=alice)
    with pytest.raises(QuotaExceeded, match="Runs of agents: 2 in the last 24 hours, of 2"):
        start(owner=alice)
    start(owner=charlie)


def test_kernels_and_final_verdicts_have_limits_of_their_own(alice, start):
    submit(alice, "final")
    with pytest.raises(QuotaExceeded, match="final verdict: 1 in"):
        submit(alice, "final")
    submit(alice)
    with pytest.raises(QuotaExceeded, match="Kernels submitted: 2 in"):
        submit(alice)
    start(owner=alice)
    used = {kind: quota_of(alice, kind).used for kind in (RUNS, KERNELS, FINALS)}
    assert used == {RUNS: 1, KERNELS: 2, FINALS: 1}


def start_external(owner):
    return services.start_external_run(
        owner=owner, task_slug=TASK, name="climber", visibility="public"
    )


def test_external_runs_count_as_final_verdicts(alice, charlie):
    run = start_external(alice)
    for more in (start_external, lambda owner: submit(owner, "final")):
        with pytest.raises(QuotaExceeded, match="final verdict: 1 in"):
            more(alice)
    start_external(charlie)
    judge(services.request_verdict(run, alice, "int relu;").evaluations.get(), report(unseen=None))
    services.finish_external_run(run, alice)
    judge(Evaluation.objects.get(scope="final"), report())
    run.refresh_from_db()
    assert run.status == "passed"
    assert (quota_of(alice, FINALS).used, quota_of(alice, RUNS).used) == (1, 1)
    with pytest.raises(QuotaExceeded, match="final verdict: 1 in"):
        start_external(alice)


def test_external_run_without_a_final_verdict_frees_its_place(alice):
    services.finish_external_run(start_external(alice), alice)
    assert Run.objects.get().status == "failed"
    start_external(alice)


def test_runs_of_the_arenas_agents_are_no_final_verdicts_of_the_user(alice, start):
    finished(start(owner=alice))
    assert (quota_of(alice, FINALS).used, quota_of(alice, RUNS).used) == (0, 1)


def test_refused_kernel_leaves_no_row(alice):
    submit(alice, "final")
    with pytest.raises(QuotaExceeded):
        submit(alice, "final")
    assert Run.objects.count() == 1


def test_work_that_broke_by_the_arena_is_refunded(alice):
    submit(alice, "final")
    Run.objects.update(status="broken", fault="arena")
    submit(alice, "final")
    quota = quota_of(alice, FINALS)
    assert (quota.used, quota.refunded, quota.left) == (1, 1, 0)


@pytest.mark.parametrize(("status", "fault"), [("failed", "candidate"), ("cancelled", "user")])
def test_work_that_ended_otherwise_is_not_refunded(alice, status, fault):
    submit(alice, "final")
    Run.objects.update(status=status, fault=fault)
    with pytest.raises(QuotaExceeded):
        submit(alice, "final")


def test_work_of_the_day_before_does_not_count(alice):
    submit(alice, "final")
    Run.objects.update(status="passed", created_at=timezone.now() - timedelta(hours=25))
    submit(alice, "final")


def test_limit_of_one_user_replaces_that_of_everybody(alice, charlie):
    alice.daily_finals = 0
    with pytest.raises(QuotaExceeded):
        submit(alice, "final")
    charlie.daily_finals = 2
    submit(charlie, "final"), submit(charlie, "final")


def test_staff_have_no_daily_limit(bob):
    assert quotas_of(bob) == []
    for _ in range(3):
        submit(bob, "final")


def start_plan(owner):
    plan = Plan(slug="p", title="P", agents=[Entrant(agent="tuner")], tasks=[TASK])
    return experiments.start(plan, owner=owner)


def start_one(owner):
    return services.start_run(owner=owner, task_slug=TASK, agent_slug="tuner")


WORK = [
    (start_one, "MAX_DAILY_RUNS"),
    (start_plan, "MAX_DAILY_RUNS"),
    (start_external, "MAX_DAILY_FINALS"),
    (submit, "MAX_DAILY_SUBMISSIONS"),
]


@pytest.mark.parametrize(("add", "limit"), WORK)
def test_work_of_a_user_is_counted_with_the_user_locked(
    add, limit, alice, agent, django_assert_max_num_queries
):
    with django_assert_max_num_queries(200) as seen:
        add(alice)
    queries = [each["sql"] for each in seen.captured_queries]
    counted = next(i for i, sql in enumerate(queries) if "COUNT(" in sql and "runs_run" in sql)
    begun = next(i for i, sql in enumerate(queries) if sql.startswith("SAVEPOINT"))
    locked = queries[begun + 1]
    assert begun + 1 < counted and 'FROM "accounts_user"' in locked
    if connection.vendor == "postgresql":
        assert locked.endswith("FOR NO KEY UPDATE")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("add", "limit"), WORK)
def test_two_requests_at_once_share_one_limit(add, limit, alice, agent, settings):
    setattr(settings, limit, 1)
    refused, begun = [], threading.Event()

    def second():
        begun.set()
        try:
            add(alice)
        except QuotaExceeded as error:
            refused.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=second)
    with transaction.atomic():
        add(alice)
        thread.start()
        assert begun.wait(PATIENCE_SECONDS)
        # Without a lock it counts before this one is committed.
        thread.join(1)  # waits: for what must not come
    thread.join(PATIENCE_SECONDS)
    assert len(refused) == 1 and Run.objects.count() == 1
